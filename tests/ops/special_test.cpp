// Special functions against values of mpmath with 40 digits, in float64.

#include <cmath>
#include <limits>

#include "tensora/ops/special_functions.h"
#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains, testing::error_of;

struct FunctionValue {
  const char* name;
  Tensor (*function)(const Tensor&);
  double x, exact, ulp;
};
const FunctionValue kFunctions[] = {
    {"i0", special::i0, 0.1, 1.0025015629340956, 4},
    {"i0", special::i0, 2.5, 3.289839144050123, 4},
    {"i0", special::i0, 7.9, 389.406283282158, 4},
    {"i0", special::i0, 8.5, 683.1619269901156, 4},
    {"i0", special::i0, 50.0, 2.9325537838493362e+20, 4},
    {"i0", special::i0, -3.3, 6.242630465183028, 4},
    {"i0e", special::i0e, 0.1, 0.9071009257823011, 4},
    {"i0e", special::i0e, 7.9, 0.14436986414104191, 4},
    {"i0e", special::i0e, 8.1, 0.14251180948829528, 4},
    {"i0e", special::i0e, 1000.0, 0.012617240455891257, 4},
    {"i0e", special::i0e, 1e+200, 3.989422804014327e-101, 4},
    {"i1", special::i1, 1e-10, 5e-11, 8},
    {"i1", special::i1, 0.1, 0.050062526047092694, 8},
    {"i1", special::i1, 2.5, 2.5167162452886984, 8},
    {"i1", special::i1, -7.9, -363.8539440845084, 8},
    {"i1", special::i1, 50.0, 2.903078590103557e+20, 8},
    {"i1e", special::i1e, 0.1, 0.045298446808809324, 8},
    {"i1e", special::i1e, 7.9, 0.13489649943989376, 8},
    {"i1e", special::i1e, 8.1, 0.13340068832583662, 8},
    {"i1e", special::i1e, -1000.0, -0.012610930256928629, 8},
    {"modified_bessel_k0", special::modified_bessel_k0, 1e-10, 23.14178244559887, 8},
    {"modified_bessel_k0", special::modified_bessel_k0, 0.3, 1.3724600605442974, 8},
    {"modified_bessel_k0", special::modified_bessel_k0, 1.9, 0.1288459792760475, 8},
    {"modified_bessel_k0", special::modified_bessel_k0, 2.1, 0.10078374088996693, 8},
    {"modified_bessel_k0", special::modified_bessel_k0, 30.0, 2.1324774964630563e-14, 8},
    {"modified_bessel_k0", special::modified_bessel_k0, 600.0, 1.3558285309948523e-262, 8},
    {"modified_bessel_k1", special::modified_bessel_k1, 1e-10, 10000000000.0, 8},
    {"modified_bessel_k1", special::modified_bessel_k1, 0.3, 3.055992033457325, 8},
    {"modified_bessel_k1", special::modified_bessel_k1, 1.9, 0.15966015303266762, 8},
    {"modified_bessel_k1", special::modified_bessel_k1, 2.1, 0.12274641153350789, 8},
    {"modified_bessel_k1", special::modified_bessel_k1, 30.0, 2.1677320018915495e-14, 8},
    {"modified_bessel_k1", special::modified_bessel_k1, 600.0, 1.356957918112806e-262, 8},
    {"scaled_modified_bessel_k0", special::scaled_modified_bessel_k0, 0.3, 1.8526273007720142, 8},
    {"scaled_modified_bessel_k0", special::scaled_modified_bessel_k0, 2.1, 0.8230171525316621, 8},
    {"scaled_modified_bessel_k0", special::scaled_modified_bessel_k0, 10000.0, 0.012532984717699286,
     8},
    {"scaled_modified_bessel_k1", special::scaled_modified_bessel_k1, 0.3, 4.12515776224447, 8},
    {"scaled_modified_bessel_k1", special::scaled_modified_bessel_k1, 2.1, 1.0023680527405792, 8},
    {"scaled_modified_bessel_k1", special::scaled_modified_bessel_k1, 10000.0, 0.012533611351270506,
     8},
    {"bessel_j0", special::bessel_j0, 0.5, 0.9384698072408129, 8},
    {"bessel_j0", special::bessel_j0, 4.0, -0.39714980986384735, 8},
    {"bessel_j0", special::bessel_j0, 30.0, -0.08636798358104021, 8},
    {"bessel_j0", special::bessel_j0, 10000.0, -0.0070961603533888015, 8},
    {"bessel_j1", special::bessel_j1, 0.5, 0.2422684576748739, 8},
    {"bessel_j1", special::bessel_j1, -4.0, 0.06604332802354913, 8},
    {"bessel_j1", special::bessel_j1, 30.0, -0.11875106261662294, 8},
    {"bessel_j1", special::bessel_j1, 10000.0, 0.0036474507555295803, 8},
    {"bessel_y0", special::bessel_y0, 0.01, -3.005455637083646, 8},
    {"bessel_y0", special::bessel_y0, 4.5, -0.19470500862950454, 8},
    {"bessel_y0", special::bessel_y0, 30.0, -0.11729573168666403, 8},
    {"bessel_y0", special::bessel_y0, 10000.0, 0.0036478055589866058, 8},
    {"bessel_y1", special::bessel_y1, 0.01, -63.67859628206065, 8},
    {"bessel_y1", special::bessel_y1, 4.5, 0.3009973230696546, 8},
    {"bessel_y1", special::bessel_y1, 30.0, 0.08442557066174723, 8},
    {"bessel_y1", special::bessel_y1, 10000.0, 0.007096342752536495, 8},
    {"spherical_bessel_j0", special::spherical_bessel_j0, 0.001, 0.9999998333333416, 4},
    {"spherical_bessel_j0", special::spherical_bessel_j0, 0.5, 0.958851077208406, 4},
    {"spherical_bessel_j0", special::spherical_bessel_j0, 4.0, -0.18920062382698205, 4},
    {"spherical_bessel_j0", special::spherical_bessel_j0, 100.0, -0.005063656411097588, 4},
    {"airy_ai", special::airy_ai, -15.5, -0.16644795409041976, 60},
    {"airy_ai", special::airy_ai, -5.0, 0.35076100902411433, 60},
    {"airy_ai", special::airy_ai, -2.1, 0.16348451299929267, 60},
    {"airy_ai", special::airy_ai, -1.9, 0.2868000562794909, 60},
    {"airy_ai", special::airy_ai, -0.5, 0.4757280916105396, 60},
    {"airy_ai", special::airy_ai, 0.0, 0.3550280538878172, 60},
    {"airy_ai", special::airy_ai, 0.9, 0.15188680364054435, 60},
    {"airy_ai", special::airy_ai, 1.1, 0.12004942735539766, 60},
    {"airy_ai", special::airy_ai, 4.0, 0.0009515638512048018, 60},
    {"airy_ai", special::airy_ai, 10.0, 1.1047532552898686e-10, 60},
    {"erfcx", special::erfcx, -20.0, 1.0442939379528289e+174, 4},
    {"erfcx", special::erfcx, -1.0, 5.008980080762283, 4},
    {"erfcx", special::erfcx, 0.0, 1.0, 4},
    {"erfcx", special::erfcx, 0.5, 0.6156903441929259, 4},
    {"erfcx", special::erfcx, 3.0, 0.17900115118138996, 4},
    {"erfcx", special::erfcx, 20.0, 0.02817434874105132, 4},
    {"erfcx", special::erfcx, 10000000000.0, 5.641895835477563e-11, 4},
    {"ndtri", special::ndtri, 1e-15, -7.941345326170997, 4},
    {"ndtri", special::ndtri, 1e-05, -4.264890793922825, 4},
    {"ndtri", special::ndtri, 0.2, -0.8416212335729142, 4},
    {"ndtri", special::ndtri, 0.5000001, 2.506628273311648e-07, 4},
    {"ndtri", special::ndtri, 0.9, 1.2815515655446006, 4},
    {"ndtri", special::ndtri, 0.999999, 4.753424308817087, 4},
    {"log_ndtr", special::log_ndtr, -50.0, -1254.8313611394199, 8},
    {"log_ndtr", special::log_ndtr, -10.0, -53.23128515051247, 8},
    {"log_ndtr", special::log_ndtr, -1.5, -2.7059444008238898, 8},
    {"log_ndtr", special::log_ndtr, -0.5, -1.1759117615936185, 8},
    {"log_ndtr", special::log_ndtr, 0.5, -0.3689464152886564, 8},
    {"log_ndtr", special::log_ndtr, 3.0, -0.0013508099647481938, 8},
    {"entr", special::entr, 1e-300, 6.9077552789821376e-298, 4},
    {"entr", special::entr, 0.3, 0.3611918412977808, 4},
    {"entr", special::entr, 2.0, -1.3862943611198906, 4},
};

struct PairValue {
  const char* name;
  Tensor (*function)(const Tensor&, const Tensor&);
  double a, b, exact, ulp;
};
const PairValue kPairs[] = {
    {"zeta", special::zeta, 1.1, 1.0, 10.584448464950801, 32},
    {"zeta", special::zeta, 2.0, 0.5, 4.934802200544679, 32},
    {"zeta", special::zeta, 3.5, 10.25, 0.0013424316227500514, 32},
    {"zeta", special::zeta, 30.0, 1.5, 5.215096203815732e-06, 32},
    {"zeta", special::zeta, 2.0, -1.5, 9.379246644989124, 32},
    {"zeta", special::zeta, 3.0, -4.25, -61.99063218366379, 32},
    {"gammainc", special::gammainc, 0.01, 0.001, 0.938570652526129, 200},
    {"gammainc", special::gammainc, 0.5, 3.0, 0.9856941215645704, 200},
    {"gammainc", special::gammainc, 5.0, 2.0, 0.05265301734371116, 200},
    {"gammainc", special::gammainc, 50.0, 51.0, 0.5743948595168596, 200},
    {"gammainc", special::gammainc, 150.0, 120.0, 0.004563441304151243, 200},
    {"gammainc", special::gammainc, 300.0, 310.0, 0.7224887541718611, 200},
    {"gammainc", special::gammainc, 1000.0, 950.0, 0.05505468623073803, 200},
    {"gammainc", special::gammainc, 10000.0, 10100.0, 0.8413487504471796, 200},
    {"gammaincc", special::gammaincc, 0.01, 0.001, 0.061429347473871014, 200},
    {"gammaincc", special::gammaincc, 0.5, 3.0, 0.01430587843542964, 200},
    {"gammaincc", special::gammaincc, 5.0, 2.0, 0.9473469826562888, 200},
    {"gammaincc", special::gammaincc, 5.0, 40.0, 5.020464318829134e-13, 200},
    {"gammaincc", special::gammaincc, 50.0, 51.0, 0.42560514048314035, 200},
    {"gammaincc", special::gammaincc, 150.0, 190.0, 0.0011808353887494205, 200},
    {"gammaincc", special::gammaincc, 300.0, 310.0, 0.2775112458281389, 200},
    {"gammaincc", special::gammaincc, 10000.0, 10100.0, 0.15865124955282037, 200},
};

Tensor number(double x) { return full({}, x, {.dtype = kFloat64}); }

double units(double got, double exact) {
  return std::abs(got - exact) / (std::abs(exact) * std::numeric_limits<double>::epsilon());
}

TEST(Special, Functions) {
  for (const FunctionValue& row : kFunctions) {
    const double got = row.function(number(row.x)).item<double>();
    EXPECT_LE(units(got, row.exact), row.ulp) << row.name << " of " << row.x << " is " << got;
    if (std::abs(row.x) > 1e38) continue;  // no float32
    const auto single = row.function(full({}, row.x)).item<float>();
    const double rounded = row.function(number(static_cast<float>(row.x))).item<double>();
    EXPECT_EQ(single, static_cast<float>(rounded)) << row.name << " of " << row.x;
  }
}

TEST(Special, Pairs) {
  for (const PairValue& row : kPairs) {
    const double got = row.function(number(row.a), number(row.b)).item<double>();
    EXPECT_LE(units(got, row.exact), row.ulp)
        << row.name << " of " << row.a << ", " << row.b << " is " << got;
  }
}

TEST(Special, Limits) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto value = [](Tensor (*function)(const Tensor&), double x) {
    return function(number(x)).item<double>();
  };
  EXPECT_EQ(value(special::i0, infinity), infinity);
  EXPECT_EQ(value(special::i1, -infinity), -infinity);
  EXPECT_EQ(value(special::i0e, infinity), 0);
  EXPECT_LE(units(value(special::i0, 712), 2.4684110577627524e+307), 16);  // exp(712) overflows
  EXPECT_EQ(value(special::modified_bessel_k0, 0), infinity);
  EXPECT_TRUE(std::isnan(value(special::modified_bessel_k1, -1)));
  EXPECT_EQ(value(special::airy_ai, infinity), 0);
  EXPECT_EQ(value(special::erfcx, -30), infinity);
  EXPECT_EQ(value(special::erfcx, infinity), 0);
  EXPECT_EQ(value(special::ndtri, 0), -infinity);
  EXPECT_EQ(value(special::ndtri, 1), infinity);
  EXPECT_TRUE(std::isnan(value(special::ndtri, 1.5)));
  EXPECT_EQ(value(special::entr, 0), 0);
  EXPECT_EQ(value(special::entr, -1), -infinity);
  const auto pair = [](Tensor (*function)(const Tensor&, const Tensor&), double a, double b) {
    return function(number(a), number(b)).item<double>();
  };
  EXPECT_EQ(pair(igamma, 0, 1), 1);
  EXPECT_EQ(pair(igamma, 1, 0), 0);
  EXPECT_TRUE(std::isnan(pair(igamma, 0, 0)));
  EXPECT_TRUE(std::isnan(pair(igammac, -1, 1)));
  EXPECT_EQ(pair(igammac, infinity, 2), 1);
  EXPECT_EQ(pair(igammac, 2, infinity), 0);
  EXPECT_EQ(pair(special::zeta, 1, 1), infinity);
  EXPECT_EQ(pair(special::zeta, 2, -1), infinity);
  EXPECT_TRUE(std::isnan(pair(special::zeta, 2.5, -1.5)));
  EXPECT_EQ(pair(special::chebyshev_polynomial_v, -1, 3), -7);
  EXPECT_EQ(pair(special::chebyshev_polynomial_w, 1, 9), 19);
  EXPECT_EQ(pair(special::hermite_polynomial_h, 2, -1), 0);
}

TEST(Special, Gradients) {
  const Tensor x = tensor({0.0, 0.7}, kFloat64).requires_grad_();
  special::i1(x).sum().backward();
  EXPECT_EQ(x.grad()[0].item<double>(), 0.5);
  EXPECT_FALSE(special::airy_ai(x).requires_grad());
  EXPECT_FALSE(special::chebyshev_polynomial_t(x, 3).requires_grad());
  EXPECT_EQ(special::i0(ones({2}, kInt32)).dtype(), kFloat32);
  EXPECT_TRUE(
      contains(error_of([&] { special::zeta(x + 2, ones({2}, kFloat64)).sum().backward(); }),
               "the derivative for 'zeta' is not implemented"));
}

}  // namespace
}  // namespace tensora
