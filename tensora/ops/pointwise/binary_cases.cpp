#include <cmath>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

double remainder_of(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Python's //: consistent with the remainder, not the floor of the rounded quotient.
double floor_divide_of(double a, double b) {
  if (b == 0) return a / b;
  if (std::isfinite(a) && std::isinf(b)) return a != 0 && (a < 0) != (b < 0) ? -1 : 0;
  return std::rint((a - remainder_of(a, b)) / b);
}

double logaddexp_of(double a, double b) {
  if (a == b && std::isinf(a)) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}
double logaddexp2_of(double a, double b) {
  if (a == b && std::isinf(a)) return a;
  return std::max(a, b) + std::log2(1 + std::exp2(-std::abs(a - b)));
}
double xlogy_of(double a, double b) { return b != b ? b : a == 0 ? 0 : a * std::log(b); }
double maximum_of(double a, double b) { return a != a ? a : b != b ? b : std::max(a, b); }
double minimum_of(double a, double b) { return a != a ? a : b != b ? b : std::min(a, b); }

// Every dtype, bool included.
const BinaryRow kAnyRows[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return add(a, b); },
     [](const Tensor& a, const Tensor& b) { add_(a, b); }, [](double a, double b) { return a + b; },
     -3, 3, -3, 3, [](const Tensor& a, Scalar b) { return add(a, b); }},
    {"mul", [](const Tensor& a, const Tensor& b) { return mul(a, b); },
     [](const Tensor& a, const Tensor& b) { mul_(a, b); }, [](double a, double b) { return a * b; },
     -3, 3, -3, 3, [](const Tensor& a, Scalar b) { return mul(a, b); }},
    {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); }, nullptr,
     maximum_of},
    {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); }, nullptr,
     minimum_of},
    {"fmax", [](const Tensor& a, const Tensor& b) { return fmax(a, b); }, nullptr,
     [](double a, double b) { return std::fmax(a, b); }},
    {"fmin", [](const Tensor& a, const Tensor& b) { return fmin(a, b); }, nullptr,
     [](double a, double b) { return std::fmin(a, b); }},
    {"heaviside", [](const Tensor& a, const Tensor& b) { return heaviside(a, b); },
     [](const Tensor& a, const Tensor& b) { heaviside_(a, b); },
     [](double a, double b) { return a == 0  ? b
                                     : a > 0 ? 1
                                             : 0; }},
};

// Every dtype but bool.
const BinaryRow kNumberRows[] = {
    {"sub", [](const Tensor& a, const Tensor& b) { return sub(a, b); },
     [](const Tensor& a, const Tensor& b) { sub_(a, b); }, [](double a, double b) { return a - b; },
     -3, 3, -3, 3, [](const Tensor& a, Scalar b) { return sub(a, b); }},
    {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a, b); },
     [](const Tensor& a, const Tensor& b) { remainder_(a, b); }, remainder_of, -9, 9, 1, 4,
     [](const Tensor& a, Scalar b) { return remainder(a, b); }},
    {"fmod", [](const Tensor& a, const Tensor& b) { return fmod(a, b); },
     [](const Tensor& a, const Tensor& b) { fmod_(a, b); },
     [](double a, double b) { return std::fmod(a, b); }, -9, 9, 1, 4,
     [](const Tensor& a, Scalar b) { return fmod(a, b); }},
    {"floor_divide", [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); },
     [](const Tensor& a, const Tensor& b) { floor_divide_(a, b); }, floor_divide_of, -9, 9, 1, 4,
     [](const Tensor& a, Scalar b) { return floor_divide(a, b); }},
    {"div_trunc", [](const Tensor& a, const Tensor& b) { return div(a, b, "trunc"); },
     [](const Tensor& a, const Tensor& b) { div_(a, b, "trunc"); },
     [](double a, double b) { return std::trunc(a / b); }, -9, 9, 1, 4,
     [](const Tensor& a, Scalar b) { return div(a, b, "trunc"); }},
    {"pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); },
     [](const Tensor& a, const Tensor& b) { pow_(a, b); },
     [](double a, double b) { return std::pow(a, b); }, 0.5, 3, 0, 3,
     [](const Tensor& a, Scalar b) { return pow(a, b); }},
    {"clamp_min", [](const Tensor& a, const Tensor& b) { return clamp_min(a, b); },
     [](const Tensor& a, const Tensor& b) { clamp_min_(a, b); }, maximum_of},
    {"clamp_max", [](const Tensor& a, const Tensor& b) { return clamp_max(a, b); },
     [](const Tensor& a, const Tensor& b) { clamp_max_(a, b); }, minimum_of},
};

// Integers become float32.
const BinaryRow kPromotingRows[] = {
    {"div", [](const Tensor& a, const Tensor& b) { return div(a, b); },
     [](const Tensor& a, const Tensor& b) { div_(a, b); }, [](double a, double b) { return a / b; },
     -3, 3, 0.5, 3, [](const Tensor& a, Scalar b) { return div(a, b); }},
    {"atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); },
     [](const Tensor& a, const Tensor& b) { atan2_(a, b); },
     [](double a, double b) { return std::atan2(a, b); }},
    {"xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); },
     [](const Tensor& a, const Tensor& b) { xlogy_(a, b); }, xlogy_of, -3, 3, 0.2, 3},
    {"copysign", [](const Tensor& a, const Tensor& b) { return copysign(a, b); },
     [](const Tensor& a, const Tensor& b) { copysign_(a, b); },
     [](double a, double b) { return std::copysign(a, b); }},
};

const BinaryRow kFloatRows[] = {
    {"hypot", [](const Tensor& a, const Tensor& b) { return hypot(a, b); },
     [](const Tensor& a, const Tensor& b) { hypot_(a, b); },
     [](double a, double b) { return std::hypot(a, b); }},
    {"logaddexp", [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); }, nullptr,
     logaddexp_of},
    {"logaddexp2", [](const Tensor& a, const Tensor& b) { return logaddexp2(a, b); }, nullptr,
     logaddexp2_of},
};

void add_alpha_and_modes(Cases& cases) {
  const auto with = [](double (*formula)(double, double)) {
    return [formula](Arrays x) {
      return map_elements(x, [&](const double* v) { return formula(v[0], v[1]); });
    };
  };
  cases.add({.op = "add",
             .name = "alpha",
             .inputs = {{{3, 4}}, {{4}}},
             .run = [](In x) { return one(add(x[0], x[1], 2)); },
             .reference = with([](double a, double b) { return a + 2 * b; }),
             .dtypes = number_dtypes(),
             .inplace = [](In x) { add_(x[0], x[1], 2); }});
  cases.add({.op = "sub",
             .name = "alpha",
             .inputs = {{{3, 4}}, {{4}}},
             .run = [](In x) { return one(sub(x[0], x[1], 3)); },
             .reference = with([](double a, double b) { return a - 3 * b; }),
             .dtypes = number_dtypes(),
             .inplace = [](In x) { sub_(x[0], x[1], 3); }});
  cases.add({.op = "div",
             .name = "floor mode",
             .inputs = {{{3, 4}, -9, 9}, {{4}, 1, 4}},
             .run = [](In x) { return one(div(x[0], x[1], "floor")); },
             .reference = with(floor_divide_of),
             .dtypes = number_dtypes(),
             .inplace = [](In x) { div_(x[0], x[1], "floor"); }});
  cases.add({.op = "div",
             .name = "no mode",
             .inputs = {{{3, 4}}, {{4}, 1, 4}},
             .run = [](In x) { return one(div(x[0], x[1], std::nullopt)); },
             .reference = with([](double a, double b) { return a / b; }),
             .inplace = [](In x) { div_(x[0], x[1], std::nullopt); }});
  cases.add({.op = "mul",
             .name = "large",
             .inputs = {{{1 << 20}}, {{1 << 20}}},
             .run = [](In x) { return one(mul(x[0], x[1])); },
             .dtypes = {kFloat32},
             .big = true});
  cases.add({.op = "pow",
             .name = "large",
             .inputs = {{{1 << 20}, 0.1, 3}, {{1 << 20}}},
             .run = [](In x) { return one(pow(x[0], x[1])); },
             .dtypes = {kFloat32},
             .big = true});
}

void add_powers(Cases& cases) {
  for (double exponent : {2.0, 3.0, 0.5, -0.5, -1.0, 0.0, 1.0, 2.5})
    cases.add({.op = "pow",
               .name = concat("to the power ", exponent),
               .inputs = {{{3, 4}, 0.2, 3}},
               .run = [exponent](In x) { return one(pow(x[0], exponent)); },
               .reference =
                   [exponent](Arrays x) {
                     return map_elements(x,
                                         [&](const double* v) { return std::pow(*v, exponent); });
                   },
               .inplace = [exponent](In x) { pow_(x[0], exponent); }});
  cases.add({.op = "pow",
             .name = "number to a tensor",
             .inputs = {{{3, 4}}},
             .run = [](In x) { return one(pow(2.5, x[0])); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) { return std::pow(2.5, *v); });
                 }});
  cases.add({.op = "pow",
             .name = "integers, negative ones too",
             .inputs = {{.sizes = {9}, .values = {0, 0, 2, -2, -1, -1, 1, 3, 5}},
                        {.sizes = {9}, .values = {0, 3, 5, 3, -3, -2, -7, -1, 1}}},
             .run = [](In x) { return one(pow(x[0], x[1])); },
             .reference =
                 [](Arrays) {
                   return one(array_of_values({1, 0, 32, -8, -1, 1, 1, 0, 5}));
                 },
             .dtypes = {kInt8, kInt16, kInt32, kInt64},
             .opt_out = {{Mode::view, "the reference belongs to the listed values"}}});
}

// A quotient that would trap in hardware has a value, as in PyTorch; division by zero throws.
void add_integer_division(Cases& cases) {
  const Input dividends{.sizes = {3}, .dtype = kInt32, .values = {-2147483648.0, 7, -7}};
  const Input divisors{.sizes = {3}, .dtype = kInt32, .values = {-1, -2, 2}};
  struct Row {
    const char* op;
    Tensor (*run)(const Tensor&, const Tensor&);
    std::vector<double> expected;
  };
  const Row rows[] = {
      {"floor_divide",
       [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); },
       {-2147483648.0, -4, -4}},
      {"div_trunc",
       [](const Tensor& a, const Tensor& b) { return div(a, b, "trunc"); },
       {-2147483648.0, -3, -3}},
      {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a, b); }, {0, -1, 1}},
      {"fmod", [](const Tensor& a, const Tensor& b) { return fmod(a, b); }, {0, 1, -1}},
  };
  for (const Row& row : rows)
    cases.add(
        {.op = row.op,
         .name = "overflow and signs",
         .inputs = {dividends, divisors},
         .run = [run = row.run](In x) { return one(run(x[0], x[1])); },
         .reference = [expected = row.expected](Arrays) { return one(array_of_values(expected)); },
         .dtypes = {kInt32},
         .opt_out = {{Mode::view, "the reference belongs to the listed values"}}});
}

void add_gradients_at_ties(Cases& cases) {
  const Input a{.sizes = {3}, .values = {1, 2, 3}}, b{.sizes = {3}, .values = {1, 3, 2}};
  const auto expect = [](std::vector<double> first, std::vector<double> second) {
    return ArrayList{array_of_values(std::move(first)), array_of_values(std::move(second))};
  };
  add_gradient(
      cases, "maximum", "ties are halved", {a, b}, [](In x) { return maximum(x[0], x[1]); },
      expect({0.5, 0, 1}, {0.5, 1, 0}));
  add_gradient(
      cases, "minimum", "ties are halved", {a, b}, [](In x) { return minimum(x[0], x[1]); },
      expect({0.5, 1, 0}, {0.5, 0, 1}));
  add_gradient(
      cases, "maximum", "spelled max", {a, b}, [](In x) { return max(x[0], x[1]); },
      expect({0.5, 0, 1}, {0.5, 1, 0}));
  add_gradient(
      cases, "minimum", "spelled min", {a, b}, [](In x) { return x[0].min(x[1]); },
      expect({0.5, 1, 0}, {0.5, 0, 1}));
  add_gradient(
      cases, "fmax", "ties are halved", {a, b}, [](In x) { return fmax(x[0], x[1]); },
      expect({0.5, 0, 1}, {0.5, 1, 0}));
  add_gradient(
      cases, "fmin", "ties are halved", {a, b}, [](In x) { return fmin(x[0], x[1]); },
      expect({0.5, 1, 0}, {0.5, 0, 1}));
  add_gradient(
      cases, "clamp_min", "ties are halved", {a, b}, [](In x) { return clamp_min(x[0], x[1]); },
      expect({0.5, 0, 1}, {0.5, 1, 0}));
  add_gradient(
      cases, "floor_divide", "gradient is zero", {a, b},
      [](In x) { return floor_divide(x[0], x[1]); }, expect({0, 0, 0}, {0, 0, 0}));
  const Input base{.sizes = {3}, .values = {0, 0, 2}}, exponent{.sizes = {3}, .values = {0, 2, 3}};
  add_gradient(
      cases, "pow", "base 0", {base, exponent}, [](In x) { return pow(x[0], x[1]); },
      expect({0, 0, 12}, {0, 0, 8 * std::log(2.0)}));
  add_gradient(
      cases, "atan2", "at the origin",
      {{.sizes = {1}, .values = {0}}, {.sizes = {1}, .values = {0}}},
      [](In x) { return atan2(x[0], x[1]); }, expect({0}, {0}));
  add_gradient(
      cases, "xlogy", "x = 0", {{.sizes = {2}, .values = {0, 2}}, {.sizes = {2}, .values = {0, 1}}},
      [](In x) { return xlogy(x[0], x[1]); }, expect({0, 0}, {kNotANumber, 2}));
  add_gradient(
      cases, "copysign", "of zero",
      {{.sizes = {2}, .values = {0, 2}}, {.sizes = {2}, .values = {-1, -1}}},
      [](In x) { return copysign(x[0], x[1]); }, expect({0, -1}, {0, 0}));
}

void add_mistakes(Cases& cases) {
  const TensorOptions bools{.dtype = kBool}, integers{.dtype = kInt64};
  cases.error("sub", "bool", "bool tensors are not supported",
              [=] { sub(zeros({2}, bools), zeros({2}, bools)); });
  cases.error("add", "shapes", "add", [] { add(zeros({2, 3}), zeros({2, 4})); });
  cases.error("mul", "in place into a smaller tensor", "does not fit in place", [] {
    mul_(zeros({3}), zeros({2, 3}));
  });
  cases.error("add", "float into integers", "cannot be stored in place as int64",
              [=] { add_(zeros({2}, integers), 0.5); });
  cases.error("div", "integers in place", "cannot be stored in place as int64",
              [=] { div_(ones({2}, integers), 2); });
  cases.error("div", "unknown mode",
              "rounding_mode must be none, \"trunc\" or \"floor\", got \"up\"",
              [] { div(ones({2}), ones({2}), "up"); });
  cases.error("pow", "negative power of integers", "negative integer powers are not allowed",
              [=] { pow(ones({2}, integers), -2); });
  cases.error("hypot", "integers", "expected floating-point tensors, got int64",
              [=] { hypot(ones({2}, integers), ones({2}, integers)); });
  cases.error("heaviside", "two dtypes", "expected operands of one dtype, got float32 and int64",
              [=] { heaviside(ones({2}), ones({2}, integers)); });
}

}  // namespace

void binary_cases(Cases& cases) {
  for (const BinaryRow& row : kAnyRows) add_binary(cases, row, {.whole = integral_dtypes()});
  for (const BinaryRow& row : kNumberRows) add_binary(cases, row, {.whole = integer_dtypes()});
  for (const BinaryRow& row : kPromotingRows)
    add_binary(cases, row, {.whole = integral_dtypes(), .whole_output = always_float});
  for (const BinaryRow& row : kFloatRows) add_binary(cases, row, {});
  add_alpha_and_modes(cases);
  add_powers(cases);
  add_integer_division(cases);
  add_gradients_at_ties(cases);
  add_mistakes(cases);
}

}  // namespace tensora::suite
