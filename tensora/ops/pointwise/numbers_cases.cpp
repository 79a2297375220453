#include <cmath>
#include <numeric>

#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/pointwise/number_functions.h"
#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

const UnaryRow kPredicates[] = {
    {"signbit", signbit, nullptr, [](double x) { return double(std::signbit(x)); }},
    {"isposinf", isposinf, nullptr, [](double x) { return double(std::isinf(x) && x > 0); }},
    {"isneginf", isneginf, nullptr, [](double x) { return double(std::isinf(x) && x < 0); }},
    {"isreal", isreal, nullptr, [](double) { return 1.; }},
};

double gcd_of(double a, double b) { return double(std::gcd(int64_t(a), int64_t(b))); }
double lcm_of(double a, double b) { return double(std::lcm(int64_t(a), int64_t(b))); }

void divisor_cases(Cases& cases) {
  using Inplace = const Tensor& (*)(const Tensor&, const Tensor&);
  const auto add = [&](const char* op, Tensor (*run)(const Tensor&, const Tensor&), Inplace inplace,
                       double (*formula)(double, double)) {
    for (const auto& [a, b] :
         {std::pair{Shape{3, 4}, Shape{3, 4}}, std::pair{Shape{5, 1}, Shape{7}},
          std::pair{Shape{}, Shape{2}}, std::pair{Shape{0, 3}, Shape{3}}})
      cases.add(
          {.op = op,
           .name = concat(a, " and ", b),
           .inputs = {{.sizes = a, .low = -20, .high = 20}, {.sizes = b, .low = -6, .high = 6}},
           .run = [run](In x) { return one(run(x[0], x[1])); },
           .reference =
               [formula](Arrays x) {
                 return map_elements(x, [&](const double* v) { return formula(v[0], v[1]); });
               },
           .dtypes = {kInt8, kInt16, kInt32, kInt64},
           .inplace = [inplace](In x) { inplace(x[0], x[1]); }});
    cases.error(op, "floats", "expected integer tensors", [run] { run(ones({2}), ones({2})); });
    cases.error(op, "bools", "expected integer tensors",
                [run] { run(ones({2}, {.dtype = kBool}), ones({2}, {.dtype = kBool})); });
  };
  add("gcd", gcd, gcd_, gcd_of);
  add("lcm", lcm, lcm_, lcm_of);
}

void frexp_cases(Cases& cases) {
  const auto add = [&](const char* name, Input input, std::map<Mode, std::string> opt_out) {
    cases.add({.op = "frexp",
               .name = name,
               .inputs = {std::move(input)},
               .run =
                   [](In x) {
                     const auto [mantissa, exponent] = frexp(x[0]);
                     return Out{mantissa, exponent};
                   },
               .reference =
                   [](Arrays x) {
                     ArrayList result{x[0], x[0]};
                     for (int64_t i = 0; i < x[0].numel(); ++i) {
                       int exponent = 0;
                       result[0][i] = std::frexp(x[0][i], &exponent);
                       result[1][i] = std::isfinite(x[0][i]) ? exponent : 0;
                     }
                     return result;
                   },
               .opt_out = std::move(opt_out),
               .output_dtypes = {{}, kInt32}});
  };
  add("matrix", {{3, 4}}, {});
  add("empty", {{0, 2}}, {});
  add("special values",
      {.sizes = {10},
       .values = {0., -0., 1, -1, 0.5, 1024, kInfinity, -kInfinity, kNotANumber, 0x1p-14}},
      no_differences());
  cases.error("frexp", "integers", "floating-point", [] { frexp(ones({2}, {.dtype = kInt64})); });
}

double next_after(double a, double b) {
  if (dtype() == kFloat64) return std::nextafter(a, b);
  if (dtype() == kFloat32) return std::nextafter(float(a), float(b));
  if (std::isnan(a) || std::isnan(b)) return kNotANumber;
  if (a == b) return b;
  // The least subnormal, and the digits.
  const double least = dtype() == kFloat16 ? 0x1p-24 : 0x1p-133;
  const int digits = dtype() == kFloat16 ? 11 : 8;
  const double largest = dtype() == kFloat16 ? 65504 : 0x1.fep127;
  if (std::isinf(a)) return std::copysign(largest, a);
  int exponent = 0;
  const bool outwards = a == 0 || (b > a) == (a > 0);
  const double fraction = std::frexp(std::abs(a), &exponent);
  double unit = std::ldexp(1, exponent - digits);
  if (!outwards && fraction == 0.5) unit /= 2;
  unit = std::max(unit, least);
  if (a == 0) return b > 0 ? least : -least;
  return std::copysign(std::abs(a) + (outwards ? unit : -unit), a);
}

void nextafter_cases(Cases& cases) {
  const std::vector<double> from{1, -1, 0, -0., 3, kInfinity, 0.5, kNotANumber, 2, 2};
  const std::vector<double> towards{2, 2, -1, 1, 3, 0, -kInfinity, 1, 1, kNotANumber};
  cases.add({.op = "nextafter",
             .name = "neighbours",
             .inputs = {{.sizes = {10}, .values = from}, {.sizes = {10}, .values = towards}},
             .run = [](In x) { return one(nextafter(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) { return next_after(v[0], v[1]); });
                 },
             .inplace = [](In x) { nextafter_(x[0], x[1]); },
             .opt_out = no_differences()});
  add_gradient(cases, "nextafter", "gradient",
               {{.sizes = {3}, .values = {1, 2, -1}}, {.sizes = {3}, .values = {2, 2, -3}}},
               [](In x) { return nextafter(x[0], x[1]); },
               {array_of_values({1, 0, 1}), array_of_values({0, 0, 0})});
  cases.error("nextafter", "integers", "floating-point",
              [] { nextafter(ones({2}, {.dtype = kInt64}), ones({2}, {.dtype = kInt64})); });
}

void power_cases(Cases& cases) {
  const auto binary = [&](const char* op, Tensor (*run)(const Tensor&, const Tensor&),
                          double (*formula)(double, double), std::vector<DType> dtypes,
                          std::function<DType(DType)> output) {
    for (const auto& [a, b] :
         {std::pair{Shape{3, 4}, Shape{3, 4}}, std::pair{Shape{5, 1}, Shape{7}},
          std::pair{Shape{}, Shape{}}, std::pair{Shape{0, 3}, Shape{3}}})
      cases.add(
          {.op = op,
           .name = concat(a, " and ", b),
           .inputs = {{.sizes = a, .low = 0.5, .high = 3}, {.sizes = b, .low = -2, .high = 3}},
           .run = [run](In x) { return one(run(x[0], x[1])); },
           .reference =
               [formula](Arrays x) {
                 return map_elements(x, [&](const double* v) { return formula(v[0], v[1]); });
               },
           .dtypes = dtypes,
           .output_dtype = output,
           .tolerance = 4});
  };
  binary(
      "float_power", float_power, [](double a, double b) { return std::pow(a, b); },
      {kFloat32, kFloat64, kInt32}, [](DType) { return kFloat64; });
  binary(
      "ldexp", ldexp, [](double a, double b) { return a * std::exp2(b); }, {kFloat32, kFloat64},
      nullptr);
  binary(
      "rsub", [](const Tensor& a, const Tensor& b) { return rsub(a, b, 2); },
      [](double a, double b) { return b - 2 * a; }, {kFloat32, kFloat64}, nullptr);
  cases.error("float_power_", "float32", "cannot be stored in place as float32",
              [] { float_power_(ones({2}), 2); });
  cases.error("positive", "bool", "not supported", [] { positive(ones({2}, {.dtype = kBool})); });
  cases.error("mvlgamma", "p 0", "at least 1", [] { mvlgamma(ones({2}), 0); });
  cases.add({.op = "mvlgamma",
             .name = "p 3",
             .inputs = {{.sizes = {3, 4}, .low = 1.5, .high = 4}},
             .run = [](In x) { return one(mvlgamma(x[0], 3)); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) {
                     return 1.5 * std::log(3.14159265358979324) + std::lgamma(*v) +
                            std::lgamma(*v - 0.5) + std::lgamma(*v - 1);
                   });
                 },
             .dtypes = {kFloat32, kFloat64},
             .inplace = [](In x) { mvlgamma_(x[0], 3); },
             .tolerance = 8});
}

void ldexp_cases(Cases& cases) {
  cases.add({.op = "ldexp",
             .name = "an exponent without dims, of fewer digits",
             .inputs = {{{3}}, {.sizes = {}, .dtype = kFloat16, .values = {2.69921875}}},
             .run = [](In x) { return one(ldexp(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) { return v[0] * std::exp2(v[1]); });
                 },
             .dtypes = {kFloat32, kFloat64},
             .inplace = [](In x) { ldexp_(x[0], x[1]); }});
  cases.add({.op = "ldexp",
             .name = "whole exponents",
             .inputs = {{{5, 3}}, {.sizes = {3}, .dtype = kInt32, .values = {3, -2, 0}}},
             .run = [](In x) { return one(ldexp(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) { return v[0] * std::exp2(v[1]); });
                 },
             .inplace = [](In x) { ldexp_(x[0], x[1]); }});
  cases.add({.op = "ldexp",
             .name = "from one end of the range to the other",
             .inputs = {{.sizes = {2}, .values = {0x1p-100, 0x1p100}},
                        {.sizes = {2}, .dtype = kInt64, .values = {200, -200}}},
             .run = [](In x) { return one(ldexp(x[0], x[1])); },
             .reference =
                 [](Arrays) {
                   Array out({2});
                   out.values = {0x1p100, 0x1p-100};
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .opt_out = no_differences()});
}

void comparison_cases(Cases& cases) {
  using Inplace = const Tensor& (*)(const Tensor&, const Tensor&);
  const auto add = [&](const char* op, Tensor (*run)(const Tensor&, const Tensor&), Inplace inplace,
                       bool (*formula)(double, double)) {
    cases.add(
        {.op = op,
         .name = "in place",
         .inputs = {{.sizes = {4, 3}, .low = -2, .high = 2}, {.sizes = {3}, .low = -2, .high = 2}},
         .run = [run](In x) { return one(to(run(x[0], x[1]), x[0].dtype())); },
         .reference =
             [formula](Arrays x) {
               return map_elements(x, [&](const double* v) { return double(formula(v[0], v[1])); });
             },
         .dtypes = {kFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8},
         .inplace = [inplace](In x) { inplace(x[0], x[1]); },
         .opt_out = {{Mode::grad, "a comparison has no gradient"}}});
  };
  add("eq_", eq, eq_, [](double a, double b) { return a == b; });
  add("ne_", ne, ne_, [](double a, double b) { return a != b; });
  add("lt_", lt, lt_, [](double a, double b) { return a < b; });
  add("le_", le, le_, [](double a, double b) { return a <= b; });
  add("gt_", gt, gt_, [](double a, double b) { return a > b; });
  add("ge_", ge, ge_, [](double a, double b) { return a >= b; });
}

}  // namespace

void numbers_cases(Cases& cases) {
  for (const UnaryRow& row : kPredicates) add_unary(cases, row, predicate_types());
  divisor_cases(cases);
  frexp_cases(cases);
  nextafter_cases(cases);
  power_cases(cases);
  ldexp_cases(cases);
  comparison_cases(cases);
}

}  // namespace tensora::suite
