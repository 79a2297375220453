// Functions of complex numbers over the whole plane: branch cuts, the unit circle, subnormal and
// huge parts, zeros of both signs, infinities and NaN. The reference is the C library's complex
// arithmetic in long double, which follows Annex G of the C standard.
#include <cmath>
#include <complex>
#include <limits>

#include "tests/helpers.h"

namespace tensora {
namespace {

using Wide = long double;
using Z = std::complex<Wide>;

constexpr Wide kPi = 3.14159265358979323846264338327950288L;
constexpr Wide kLn2 = 0.693147180559945309417232121458176568L;
constexpr Wide kLn10 = 2.30258509299404568401799145468436421L;

struct Function {
  const char* name;
  Tensor (*run)(const Tensor&);
  Z (*value)(const Z&);
  Z (*slope)(const Z&);
  double tolerance = 8;   // in units of epsilon, of the result's length
  bool by_parts = false;  // of each part's length
  bool special = true;    // also at infinities and NaN, where the reference knows the result
};

Z times_i(const Z& z) { return {-z.imag(), z.real()}; }
// 1 + z and 1 - z with the sign of a zero; 1 as a complex number would lose it.
Z plus_one(const Z& z) { return {z.real() + 1, z.imag()}; }
Z one_minus(const Z& z) { return {1 - z.real(), -z.imag()}; }
Z inverse_roots(const Z& z) { return Wide(1) / std::sqrt(one_minus(z)) / std::sqrt(plus_one(z)); }
Z sigmoid_of(const Z& z) {
  return z.real() >= 0 ? Wide(1) / (Wide(1) + std::exp(-z)) : std::exp(z) / (Wide(1) + std::exp(z));
}
Z log1p_of(const Z& z) {
  const Wide x = z.real(), y = z.imag();
  if (std::abs(x) > 0.5L || std::abs(y) > 0.5L) return std::log(plus_one(z));
  return {std::log1p(x * (x + 2) + y * y) / 2, std::atan2(y, x + 1)};
}
Z expm1_of(const Z& z) {
  const Wide half = std::sin(z.imag() / 2);
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half,
          std::exp(z.real()) * std::sin(z.imag())};
}

const Function kFunctions[] = {
    {"exp", exp, [](const Z& z) { return std::exp(z); }, [](const Z& z) { return std::exp(z); }},
    {"log", log, [](const Z& z) { return std::log(z); }, [](const Z& z) { return Wide(1) / z; }, 8,
     true},
    {"log2", log2, [](const Z& z) { return std::log(z) / kLn2; },
     [](const Z& z) { return Wide(1) / z / kLn2; }, 8, true, false},
    {"log10", log10, [](const Z& z) { return std::log(z) / kLn10; },
     [](const Z& z) { return Wide(1) / z / kLn10; }, 8, true, false},
    {"log1p", log1p, log1p_of, [](const Z& z) { return Wide(1) / plus_one(z); }, 8, false, false},
    {"expm1", expm1, expm1_of, [](const Z& z) { return std::exp(z); }, 8, false, false},
    {"sqrt", sqrt, [](const Z& z) { return std::sqrt(z); },
     [](const Z& z) { return Wide(0.5) / std::sqrt(z); }, 8, true},
    {"rsqrt", rsqrt, [](const Z& z) { return Wide(1) / std::sqrt(z); },
     [](const Z& z) { return Wide(-0.5) / std::sqrt(z) / z; }, 8, false, false},
    {"sin", sin, [](const Z& z) { return std::sin(z); }, [](const Z& z) { return std::cos(z); }},
    {"cos", cos, [](const Z& z) { return std::cos(z); }, [](const Z& z) { return -std::sin(z); }},
    {"tan", tan, [](const Z& z) { return std::tan(z); },
     [](const Z& z) { return Wide(1) + std::tan(z) * std::tan(z); }},
    {"sinh", sinh, [](const Z& z) { return std::sinh(z); },
     [](const Z& z) { return std::cosh(z); }},
    {"cosh", cosh, [](const Z& z) { return std::cosh(z); },
     [](const Z& z) { return std::sinh(z); }},
    {"tanh", tanh, [](const Z& z) { return std::tanh(z); },
     [](const Z& z) { return Wide(1) - std::tanh(z) * std::tanh(z); }},
    {"asin", asin, [](const Z& z) { return std::asin(z); }, inverse_roots, 8, true},
    {"acos", acos, [](const Z& z) { return std::acos(z); },
     [](const Z& z) { return -inverse_roots(z); }, 8, true},
    {"atan", atan, [](const Z& z) { return std::atan(z); },
     [](const Z& z) { return Wide(1) / one_minus(times_i(z)) / plus_one(times_i(z)); }, 8, true},
    {"asinh", asinh, [](const Z& z) { return std::asinh(z); },
     [](const Z& z) { return inverse_roots(times_i(z)); }, 8, true},
    {"acosh", acosh, [](const Z& z) { return std::acosh(z); },
     [](const Z& z) {
       return Wide(1) / std::sqrt(Z(z.real() - 1, z.imag())) / std::sqrt(plus_one(z));
     },
     8, true},
    {"atanh", atanh, [](const Z& z) { return std::atanh(z); },
     [](const Z& z) { return Wide(1) / one_minus(z) / plus_one(z); }, 8, true},
    {"sigmoid", sigmoid, sigmoid_of,
     [](const Z& z) { return sigmoid_of(z) * (Wide(1) - sigmoid_of(z)); }, 8, false, false},
};

template <class T>
std::vector<std::complex<T>> points() {
  using Limits = std::numeric_limits<T>;
  const T eps = Limits::epsilon();
  std::vector<T> parts = {0,
                          Limits::denorm_min(),
                          Limits::min(),
                          T(1e-30),
                          T(1e-18),
                          T(1e-8),
                          T(1e-3),
                          T(0.3),
                          T(0.5),
                          T(0.9997554),
                          1 - eps,
                          1,
                          1 + eps,
                          T(1.5),
                          3,
                          20,
                          T(88.5),
                          T(89.5),
                          100,
                          T(1e4),
                          T(1e10),
                          T(1e30)};
  if (sizeof(T) == 8) parts.insert(parts.end(), {T(1e-200), 709.5, 712, 740, T(1e200)});
  parts.push_back(Limits::max() / 4);
  parts.push_back(Limits::max());
  parts.push_back(Limits::infinity());
  const size_t positive = parts.size();
  for (size_t i = 0; i < positive; ++i) parts.push_back(-parts[i]);
  parts.push_back(Limits::quiet_NaN());
  std::vector<std::complex<T>> result;
  for (const T x : parts)
    for (const T y : parts) result.emplace_back(x, y);
  for (int k = 0; k < 200; ++k) {  // on the unit circle but for a rounding, and near it
    const double angle = 0.0314159 * k + 1e-3, away = k % 3 == 0 ? 1e-6 : 0;
    result.emplace_back(static_cast<T>(std::cos(angle) * (1 + away)),
                        static_cast<T>(std::sin(angle) * (1 - away)));
  }
  return result;
}

template <class T>
Tensor tensor_of(const std::vector<std::complex<T>>& numbers) {
  Tensor result = empty({static_cast<int64_t>(numbers.size())},
                        {.dtype = sizeof(T) == 4 ? kComplex64 : kComplex128});
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<std::complex<T>*>(result.data_ptr()));
  return result;
}

/// How a part of a result differs from the exact one, or "": `unit` is the error that is allowed.
/// An infinity whose sign the standard leaves open may have either.
template <class T>
std::string fault(T got, Wide exact, Wide unit, bool any_sign) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(exact)) return std::isnan(got) ? "" : "is no NaN";
  if (std::isnan(got)) return "is NaN";
  const Wide largest = Limits::max();
  if (std::abs(exact) > largest * (1 - 4 * Wide(Limits::epsilon()))) {
    if (std::abs(got) < largest * (1 - 64 * Wide(Limits::epsilon()))) return "is not infinite";
    return any_sign || std::signbit(got) == std::signbit(exact) ? "" : "has the wrong sign";
  }
  if (std::isinf(got)) return "is infinite";
  if (std::abs(Wide(got) - exact) > unit + 2 * Wide(Limits::denorm_min())) return "is too far";
  return "";
}

bool is_finite(const Z& z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); }

template <class T>
void expect_function(const Function& f) {
  const auto z = points<T>();
  const Tensor result = f.run(tensor_of(z));
  const auto* got = reinterpret_cast<const std::complex<T>*>(result.data_ptr());
  const Wide eps = Wide(std::numeric_limits<T>::epsilon()) * f.tolerance;
  int faults = 0;
  for (size_t i = 0; i < z.size() && faults < 5; ++i) {
    const Z at(z[i].real(), z[i].imag());
    if (!f.special && !is_finite(at)) continue;
    const Z exact = f.value(at);
    if (!f.special && !is_finite(exact)) continue;  // the reference overflows on the way
    // Near a pole the result has the error of its argument, the larger the nearer it is.
    const Wide length = std::abs(exact) * (f.run == sigmoid ? std::abs(exact) + 1 : 1);
    const bool open = !is_finite(at);
    const auto part = [&](T value, Wide expected) {
      return fault(value, expected, eps * (f.by_parts ? std::abs(expected) : length), open);
    };
    const std::string real = part(got[i].real(), exact.real()),
                      imag = part(got[i].imag(), exact.imag());
    if (real.empty() && imag.empty()) continue;
    ++faults;
    ADD_FAILURE() << f.name << z[i] << " = " << got[i] << ", expected " << exact << ": " << real
                  << imag;
  }
}

TEST(ComplexFunctions, Values) {
  for (const Function& f : kFunctions) {
    expect_function<float>(f);
    expect_function<double>(f);
  }
}

// Where the exact gradient is a number of moderate size.
template <class T>
void expect_gradient(const Function& f) {
  const auto z = points<T>();
  const Tensor x = tensor_of(z).requires_grad_();
  const Tensor y = f.run(x);
  y.backward(ones_like(y));
  const Tensor gradient = contiguous(x.grad());
  const auto* got = reinterpret_cast<const std::complex<T>*>(gradient.data_ptr());
  const Wide eps = Wide(std::numeric_limits<T>::epsilon()) * 4 * f.tolerance;
  int faults = 0;
  for (size_t i = 0; i < z.size() && faults < 5; ++i) {
    const Z at(z[i].real(), z[i].imag());
    const Z value = f.value(at), exact = std::conj(f.slope(at));
    const Wide largest = std::sqrt(Wide(std::numeric_limits<T>::max())) / 16;
    const bool at_the_end = std::abs(at) > Wide(std::numeric_limits<T>::max()) / 8;  // 1 / z
    if (at_the_end || !is_finite(at) || !is_finite(value) || !is_finite(exact) ||
        std::abs(value) > largest || std::abs(exact) > largest)
      continue;
    // tan, tanh and sigmoid have their gradient from the result, which may be near 1.
    const Wide least = f.by_parts ? 0 : 1, pole = f.run == sigmoid ? std::abs(value) + 1 : 1;
    const Wide unit = eps * pole * std::max(std::abs(exact), least);
    const std::string real = fault(got[i].real(), exact.real(), unit, false),
                      imag = fault(got[i].imag(), exact.imag(), unit, false);
    if (real.empty() && imag.empty()) continue;
    ++faults;
    ADD_FAILURE() << "gradient of " << f.name << z[i] << " = " << got[i] << ", expected " << exact
                  << ": " << real << imag;
  }
}

TEST(ComplexFunctions, Gradients) {
  for (const Function& f : kFunctions) {
    expect_gradient<float>(f);
    expect_gradient<double>(f);
  }
}

TEST(ComplexFunctions, InfinitiesOfFunctionsThatTheCLibraryDoesNotHave) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto of = [](Tensor (*run)(const Tensor&), double re, double im) {
    return run(tensor_of<double>({{re, im}})).item<Complex<double>>();
  };
  EXPECT_EQ(of(expm1, inf, 0), Complex<double>(inf, 0));
  EXPECT_EQ(of(expm1, -inf, 1), Complex<double>(-1, 0));
  EXPECT_EQ(of(expm1, -inf, inf), Complex<double>(-1, 0));
  EXPECT_EQ(of(log1p, -1, 0), Complex<double>(-inf, 0));
  EXPECT_EQ(of(log1p, -inf, inf).re, inf);
  EXPECT_NEAR(of(log1p, -inf, inf).im, 0.75 * double(kPi), 1e-15);
  EXPECT_EQ(of(sigmoid, -inf, 1), Complex<double>(0));
  EXPECT_EQ(of(sigmoid, inf, 1), Complex<double>(1));
  EXPECT_EQ(of(exp2, -inf, 1), Complex<double>(0));
}

TEST(ComplexFunctions, SumsKeepInfiniteParts) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor z = tensor_of<double>({{inf, 1}}), one = tensor_of<double>({{1, 1}});
  EXPECT_EQ((one + z).item<Complex<double>>(), Complex<double>(inf, 2));
  EXPECT_EQ((one - z).item<Complex<double>>(), Complex<double>(-inf, 0));
  EXPECT_EQ(add(one, z, 2).item<Complex<double>>(), Complex<double>(inf, 3));
  const Tensor none = tensor_of<double>({{-inf, 0}});
  EXPECT_EQ(logaddexp(none, none).item<Complex<double>>(), Complex<double>(-inf, 0));
  EXPECT_EQ(logaddexp(none, one).item<Complex<double>>(), Complex<double>(1, 1));
}

TEST(ComplexFunctions, LerpKeepsThePrecisionOfItsWeight) {
  const Tensor start = tensor_of<double>({{0, 1}}), end = tensor_of<double>({{1, 0}});
  for (const double weight : {0.1, 0.7}) {
    const auto between = lerp(start, end, weight).item<Complex<double>>();
    EXPECT_NEAR(between.re, weight, 1e-16);
    EXPECT_NEAR(between.im, 1 - weight, 2e-16);
  }
}

}  // namespace
}  // namespace tensora
