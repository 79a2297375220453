#include <cmath>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double logit_of(double x) { return std::log(x / (1 - x)); }
double sinc_of(double x) {
  const double z = 3.14159265358979324 * x;
  return x == 0 ? 1 : std::sin(z) / z;
}

// By bisection: slow, and independent of the method used.
double erfinv_of(double x) {
  if (!(std::abs(x) <= 1)) return kNotANumber;
  if (std::abs(x) == 1) return x * kInfinity;
  double low = 0, high = 6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle) > 1 - std::abs(x) ? low : high) = middle;
  }
  return std::copysign(low, x);
}

double digamma_of(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (std::isinf(x)) return x > 0 ? x : kNotANumber;
  if (x < 0 && x == std::floor(x)) return kNotANumber;
  if (x < 0) return digamma_of(1 - x) - 3.14159265358979324 / std::tan(3.14159265358979324 * x);
  double sum = 0;
  for (; x < 100; ++x) sum -= 1 / x;
  const double q = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - q / 12 + q * q / 120 - q * q * q / 252;
}

// The sum of the first terms, and the integral over the others.
double polygamma_of(int n, double x) {
  double sum = 0, factor = n % 2 ? 1 : -1;
  for (int k = 2; k <= n; ++k) factor *= k;
  for (int k = 0; k < 20000; ++k) sum += std::pow(x + k, -n - 1);
  const double end = x + 20000;
  return factor * (sum + std::pow(end, -n) / n + std::pow(end, -n - 1) / 2);
}

// Integers become float32.
const UnaryRow kFloatRows[] = {
    {"reciprocal", reciprocal, reciprocal_, [](double x) { return 1 / x; }, 0.5, 3},
    {"sqrt", sqrt, sqrt_, [](double x) { return std::sqrt(x); }, 0.1, 4},
    {"rsqrt", rsqrt, rsqrt_, [](double x) { return 1 / std::sqrt(x); }, 0.1, 4},
    {"exp", exp, exp_, [](double x) { return std::exp(x); }},
    {"exp2", exp2, exp2_, [](double x) { return std::exp2(x); }},
    {"expm1", expm1, expm1_, [](double x) { return std::expm1(x); }},
    {"log", log, log_, [](double x) { return std::log(x); }, 0.1, 4},
    {"log2", log2, log2_, [](double x) { return std::log2(x); }, 0.1, 4},
    {"log10", log10, log10_, [](double x) { return std::log10(x); }, 0.1, 4},
    {"log1p", log1p, log1p_, [](double x) { return std::log1p(x); }, -0.9, 4},
    {"sin", sin, sin_, [](double x) { return std::sin(x); }},
    {"cos", cos, cos_, [](double x) { return std::cos(x); }},
    {"tan", tan, tan_, [](double x) { return std::tan(x); }, -1.2, 1.2},
    {"asin", asin, asin_, [](double x) { return std::asin(x); }, -0.9, 0.9},
    {"acos", acos, acos_, [](double x) { return std::acos(x); }, -0.9, 0.9},
    {"atan", atan, atan_, [](double x) { return std::atan(x); }},
    {"sinh", sinh, sinh_, [](double x) { return std::sinh(x); }},
    {"cosh", cosh, cosh_, [](double x) { return std::cosh(x); }},
    {"tanh", tanh, tanh_, [](double x) { return std::tanh(x); }},
    {"asinh", asinh, asinh_, [](double x) { return std::asinh(x); }},
    {"acosh", acosh, acosh_, [](double x) { return std::acosh(x); }, 1.2, 4},
    {"atanh", atanh, atanh_, [](double x) { return std::atanh(x); }, -0.9, 0.9},
    {"sigmoid", sigmoid, sigmoid_, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"logit", [](const Tensor& x) { return logit(x); }, [](const Tensor& x) { logit_(x); },
     logit_of, 0.1, 0.9},
    {"logit with eps", [](const Tensor& x) { return logit(x, 0.2); },
     [](const Tensor& x) { logit_(x, 0.2); },
     [](double x) { return x != x ? x : logit_of(std::min(std::max(x, 0.2), 0.8)); }, 0.05, 0.95},
    {"erf", erf, erf_, [](double x) { return std::erf(x); }},
    {"erfc", erfc, erfc_, [](double x) { return std::erfc(x); }},
    {"erfinv", erfinv, erfinv_, erfinv_of, -0.95, 0.95},
    {"lgamma", lgamma, lgamma_, [](double x) { return std::lgamma(x); }, 0.3, 5},
    {"digamma", digamma, digamma_, digamma_of, 0.3, 5},
    {"digamma of negatives", digamma, digamma_, digamma_of, -1.8, -1.2},
    {"deg2rad", deg2rad, deg2rad_, [](double x) { return x * 0.017453292519943295; }},
    {"rad2deg", rad2deg, rad2deg_, [](double x) { return x / 0.017453292519943295; }},
    {"sinc", sinc, sinc_, sinc_of, -3, 3, 2},
    {"sinc near zero", sinc, sinc_, sinc_of, -0.05, 0.05, 2},
};

// Every number keeps its dtype.
const UnaryRow kNumberRows[] = {
    {"neg", neg, neg_, [](double x) { return -x; }},
    {"abs", abs, abs_, [](double x) { return std::abs(x); }},
    {"square", square, square_, [](double x) { return x * x; }},
    {"cube", [](const Tensor& x) { return pow(x, 3); },
     [](const Tensor& x) -> const Tensor& { return pow_(x, 3); },
     [](double x) { return x * x * x; }},
    {"floor", floor, floor_, [](double x) { return std::floor(x); }},
    {"ceil", ceil, ceil_, [](double x) { return std::ceil(x); }},
    {"trunc", trunc, trunc_, [](double x) { return std::trunc(x); }},
    {"round", [](const Tensor& x) { return round(x); }, [](const Tensor& x) { round_(x); },
     [](double x) { return std::rint(x); }},
    {"sign", sign, sign_, sign_of},
};

const UnaryRow kFloatOnlyRows[] = {
    {"frac", frac, frac_, [](double x) { return x - std::trunc(x); }},
    {"round decimals", [](const Tensor& x) { return round(x, 1); },
     [](const Tensor& x) { round_(x, 1); }, [](double x) { return std::rint(x * 10) / 10; }},
    {"round tens", [](const Tensor& x) { return round(x, -1); },
     [](const Tensor& x) { round_(x, -1); }, [](double x) { return std::rint(x / 10) * 10; }, -60,
     60},
};

const UnaryRow kPredicateRows[] = {
    {"isnan", isnan, nullptr, [](double x) { return x != x ? 1.0 : 0.0; }},
    {"isinf", isinf, nullptr, [](double x) { return std::isinf(x) ? 1.0 : 0.0; }},
    {"isfinite", isfinite, nullptr, [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }},
    {"logical_not", logical_not, logical_not_, [](double x) { return x == 0 ? 1.0 : 0.0; }},
};

void add_polygamma(Cases& cases) {
  for (const double low : {0.3, -1.8})
    for (int n = 1; n <= 3; ++n)
      cases.add({.op = "polygamma",
                 .name = concat("order ", n, " from ", low),
                 .inputs = {{{3, 4}, low, low + 0.6}},
                 .run = [n](In x) { return one(polygamma(n, x[0])); },
                 .reference =
                     [n](Arrays x) {
                       return map_elements(x, [n](const double* v) { return polygamma_of(n, *v); });
                     },
                 .tolerance = 3});
  cases.error("polygamma", "negative order", "n must be", [] { polygamma(-1, ones({2})); });
}

void add_nan_to_num(Cases& cases) {
  const std::vector<double> values{kNotANumber, kInfinity, -kInfinity, 0, 1.5, -2};
  const auto reference = [](Arrays x) {
    return map_elements(x, [](const double* v) {
      return *v != *v ? 1 : *v == kInfinity ? 7 : *v == -kInfinity ? -8 : *v;
    });
  };
  cases.add({.op = "nan_to_num",
             .name = "given numbers",
             .inputs = {{.sizes = {6}, .values = values}},
             .run = [](In x) { return one(nan_to_num(x[0], 1, 7, -8)); },
             .reference = reference,
             .inplace = [](In x) { nan_to_num_(x[0], 1, 7, -8); },
             .opt_out = no_differences()});
  cases.add({.op = "nan_to_num",
             .name = "finite numbers",
             .inputs = {{{3, 4}}},
             .run = [](In x) { return one(nan_to_num(x[0])); },
             .reference = [](Arrays x) { return one(x[0]); },
             .dtypes = all_dtypes()});
  // The replacement of infinities is the largest finite number of the dtype.
  const auto largest = [](DType dtype) {
    switch (dtype) {
      case DType::float16:
        return 65504.0;
      case DType::bfloat16:
        return 0x1.fep127;
      case DType::float32:
        return 0x1.fffffep127;
      default:
        return 0x1.fffffffffffffp1023;
    }
  };
  cases.add({.op = "nan_to_num",
             .name = "largest of the dtype",
             .inputs = {{.sizes = {3}, .values = {kInfinity, -kInfinity, kNotANumber}}},
             .run = [](In x) { return one(nan_to_num(x[0])); },
             .reference =
                 [largest](Arrays) {
                   return one(array_of_values({largest(dtype()), -largest(dtype()), 0}));
                 },
             .opt_out = {{Mode::grad, "the values are infinite"},
                         {Mode::view, "the reference belongs to the listed values"}}});
}

void add_gradients_at_kinks(Cases& cases) {
  const Input kinks{.sizes = {4}, .values = {-1.5, 0, 2, -0.0}};
  const Array zeros = array_of_values({0, 0, 0, 0});
  add_gradient(cases, "abs", "gradient at 0", {kinks}, [](In x) { return abs(x[0]); },
               {array_of_values({-1, 0, 1, 0})});
  add_gradient(cases, "floor", "gradient is zero", {kinks}, [](In x) { return floor(x[0]); },
               {zeros});
  add_gradient(cases, "ceil", "gradient is zero", {kinks}, [](In x) { return ceil(x[0]); },
               {zeros});
  add_gradient(cases, "trunc", "gradient is zero", {kinks}, [](In x) { return trunc(x[0]); },
               {zeros});
  add_gradient(cases, "round", "gradient is zero", {kinks}, [](In x) { return round(x[0]); },
               {zeros});
  add_gradient(cases, "sign", "gradient is zero", {kinks}, [](In x) { return sign(x[0]); },
               {zeros});
  add_gradient(cases, "sinc", "gradient at 0", {{.sizes = {2}, .values = {0, -0.0}}},
               [](In x) { return sinc(x[0]); }, {array_of_values({0, 0})});
  add_gradient(cases, "nan_to_num", "gradient",
               {{.sizes = {3}, .values = {kNotANumber, kInfinity, 2}}},
               [](In x) { return nan_to_num(x[0]); }, {array_of_values({0, 0, 1})});
  add_gradient(cases, "logit", "gradient outside eps", {{.sizes = {3}, .values = {0.1, 0.5, 0.9}}},
               [](In x) { return logit(x[0], 0.2); }, {array_of_values({0, 4, 0})});
}

void add_mistakes(Cases& cases) {
  cases.error("neg", "bool", "bool tensors are not supported",
              [] { neg(zeros({2}, {.dtype = kBool})); });
  cases.error("floor", "bool", "bool tensors are not supported",
              [] { floor(zeros({2}, {.dtype = kBool})); });
  cases.error("frac", "integers", "expected floating-point tensors, got int64",
              [] { frac(zeros({2}, {.dtype = kInt64})); });
  cases.error("round", "decimals of integers", "expected floating-point tensors",
              [] { round(zeros({2}, {.dtype = kInt32}), 2); });
  cases.error("sqrt", "integers in place", "cannot be stored in place as int64",
              [] { sqrt_(ones({2}, {.dtype = kInt64})); });
  cases.error("exp", "expanded in place", "share one memory location",
              [] { exp_(as_strided(ones({2}), {4}, {0})); });
}

void add_speed(Cases& cases) {
  struct Row {
    const char* op;
    Tensor (*run)(const Tensor&);
  };
  const Row rows[] = {{"exp", exp},   {"log", log},     {"sin", sin},         {"cos", cos},
                      {"tanh", tanh}, {"erf", erf},     {"sigmoid", sigmoid}, {"sqrt", sqrt},
                      {"neg", neg},   {"rsqrt", rsqrt}, {"floor", floor}};
  for (const Row& row : rows)
    cases.add({.op = row.op,
               .name = "large",
               .inputs = {{{1 << 20}, 0.1, 3}},
               .run = [run = row.run](In x) { return one(run(x[0])); },
               .dtypes = {kFloat32},
               .big = true});
}

}  // namespace

void unary_cases(Cases& cases) {
  for (const UnaryRow& row : kFloatRows)
    add_unary(cases, row, {.whole = integral_dtypes(), .whole_output = always_float});
  for (const UnaryRow& row : kNumberRows) add_unary(cases, row, {.whole = integer_dtypes()});
  for (const UnaryRow& row : kFloatOnlyRows) add_unary(cases, row, {});
  for (const UnaryRow& row : kPredicateRows) add_unary(cases, row, predicate_types());
  add_polygamma(cases);
  add_nan_to_num(cases);
  add_gradients_at_kinks(cases);
  add_mistakes(cases);
  add_speed(cases);
}

}  // namespace tensora::suite
