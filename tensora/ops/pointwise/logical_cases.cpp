#include <cmath>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

int64_t whole(double x) { return static_cast<int64_t>(x); }

const BinaryRow kComparisons[] = {
    {"eq", [](const Tensor& a, const Tensor& b) { return a == b; }, nullptr,
     [](double a, double b) { return a == b ? 1.0 : 0.0; }, -3, 3, -3, 3,
     [](const Tensor& a, Scalar b) { return a == b; }},
    {"ne", [](const Tensor& a, const Tensor& b) { return a != b; }, nullptr,
     [](double a, double b) { return a != b ? 1.0 : 0.0; }, -3, 3, -3, 3,
     [](const Tensor& a, Scalar b) { return a != b; }},
    {"lt", [](const Tensor& a, const Tensor& b) { return a < b; }, nullptr,
     [](double a, double b) { return a < b ? 1.0 : 0.0; }, -3, 3, -3, 3,
     [](const Tensor& a, Scalar b) { return b > a; }},
    {"le", [](const Tensor& a, const Tensor& b) { return a <= b; }, nullptr,
     [](double a, double b) { return a <= b ? 1.0 : 0.0; }, -3, 3, -3, 3,
     [](const Tensor& a, Scalar b) { return b >= a; }},
    {"gt", [](const Tensor& a, const Tensor& b) { return a > b; }, nullptr,
     [](double a, double b) { return a > b ? 1.0 : 0.0; }, -3, 3, -3, 3,
     [](const Tensor& a, Scalar b) { return b < a; }},
    {"ge", [](const Tensor& a, const Tensor& b) { return a >= b; }, nullptr,
     [](double a, double b) { return a >= b ? 1.0 : 0.0; }, -3, 3, -3, 3,
     [](const Tensor& a, Scalar b) { return b <= a; }},
    {"logical_and", [](const Tensor& a, const Tensor& b) { return logical_and(a, b); },
     [](const Tensor& a, const Tensor& b) { logical_and_(a, b); },
     [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
    {"logical_or", [](const Tensor& a, const Tensor& b) { return logical_or(a, b); },
     [](const Tensor& a, const Tensor& b) { logical_or_(a, b); },
     [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
    {"logical_xor", [](const Tensor& a, const Tensor& b) { return logical_xor(a, b); },
     [](const Tensor& a, const Tensor& b) { logical_xor_(a, b); },
     [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }},
};

struct BitRow {
  const char* op;
  Tensor (*run)(const Tensor&, const Tensor&);
  void (*inplace)(const Tensor&, const Tensor&);
  double (*formula)(double, double);
  bool takes_bool;
  double other_low = -9, other_high = 9;
};

const BitRow kBitRows[] = {
    {"bitwise_and", [](const Tensor& a, const Tensor& b) { return a & b; },
     [](const Tensor& a, const Tensor& b) { a &= b; },
     [](double a, double b) { return static_cast<double>(whole(a) & whole(b)); }, true},
    {"bitwise_or", [](const Tensor& a, const Tensor& b) { return a | b; },
     [](const Tensor& a, const Tensor& b) { a |= b; },
     [](double a, double b) { return static_cast<double>(whole(a) | whole(b)); }, true},
    {"bitwise_xor", [](const Tensor& a, const Tensor& b) { return a ^ b; },
     [](const Tensor& a, const Tensor& b) { a ^= b; },
     [](double a, double b) { return static_cast<double>(whole(a) ^ whole(b)); }, true},
    {"bitwise_left_shift", [](const Tensor& a, const Tensor& b) { return a << b; },
     [](const Tensor& a, const Tensor& b) { a <<= b; },
     [](double a, double b) { return std::ldexp(a, static_cast<int>(b)); }, false, 0, 7},
    {"bitwise_right_shift", [](const Tensor& a, const Tensor& b) { return a >> b; },
     [](const Tensor& a, const Tensor& b) { a >>= b; },
     [](double a, double b) { return std::floor(std::ldexp(a, -static_cast<int>(b))); }, false, 0,
     7},
};

void add_bits(Cases& cases) {
  for (const BitRow& row : kBitRows)
    for (const Shape& other : {Shape{3, 4}, Shape{4}, Shape{}})
      cases.add({.op = row.op,
                 .name = to_string(other),
                 .inputs = {{{3, 4}, -100, 100}, {other, row.other_low, row.other_high}},
                 .run = [run = row.run](In x) { return one(run(x[0], x[1])); },
                 .reference =
                     [formula = row.formula](Arrays x) {
                       return map_elements(x, [&](const double* v) { return formula(v[0], v[1]); });
                     },
                 .dtypes = row.takes_bool ? integral_dtypes() : integer_dtypes(),
                 .inplace = [inplace = row.inplace](In x) { inplace(x[0], x[1]); }});
  cases.add({.op = "bitwise_not",
             .name = "integers",
             .inputs = {{{3, 4}, -100, 100}},
             .run = [](In x) { return one(~x[0]); },
             .reference =
                 [](Arrays x) {
                   return map_elements(
                       x, [](const double* v) { return static_cast<double>(~whole(*v)); });
                 },
             .dtypes = integer_dtypes(),
             .inplace = [](In x) { bitwise_not_(x[0]); }});
  cases.add({.op = "bitwise_not",
             .name = "bool",
             .inputs = {{{3, 4}}},
             .run = [](In x) { return one(~x[0]); },
             .reference =
                 [](Arrays x) { return map_elements(x, [](const double* v) { return 1 - *v; }); },
             .dtypes = {kBool},
             .inplace = [](In x) { bitwise_not_(x[0]); }});
}

// Counts that leave nothing of the number but its sign.
void add_wide_shifts(Cases& cases) {
  const Input numbers{.sizes = {4}, .dtype = kInt32, .values = {5, -5, 5, -5}};
  const Input counts{.sizes = {4}, .dtype = kInt32, .values = {32, 40, -1, -1}};
  const auto add = [&](const char* op, Tensor (*run)(const Tensor&, const Tensor&),
                       std::vector<double> expected) {
    cases.add({.op = op,
               .name = "counts out of range",
               .inputs = {numbers, counts},
               .run = [run](In x) { return one(run(x[0], x[1])); },
               .reference = [expected](Arrays) { return one(array_of_values(expected)); },
               .dtypes = {kInt32},
               .opt_out = {{Mode::view, "the reference belongs to the listed values"}}});
  };
  add("bitwise_left_shift", [](const Tensor& a, const Tensor& b) { return a << b; }, {0, 0, 0, 0});
  add("bitwise_right_shift", [](const Tensor& a, const Tensor& b) { return a >> b; },
      {0, -1, 0, -1});
}

void add_closeness(Cases& cases) {
  const Input a{.sizes = {7}, .values = {1, 1, kNotANumber, kInfinity, kInfinity, 0, 100}};
  const Input b{.sizes = {7}, .values = {1, 1.5, kNotANumber, kInfinity, -kInfinity, 0.25, 101}};
  for (const bool equal_nan : {false, true})
    cases.add({.op = "isclose",
               .name = equal_nan ? "NaN is close to NaN" : "tolerances",
               .inputs = {a, b},
               .run = [equal_nan](In x) { return one(isclose(x[0], x[1], 0.1, 0.05, equal_nan)); },
               .reference =
                   [equal_nan](Arrays) {
                     return one(array_of_values({1, 0, equal_nan ? 1.0 : 0.0, 1, 0, 0, 1}));
                   },
               .output_dtype = always_bool,
               .opt_out = {{Mode::grad, "the result is bool"},
                           {Mode::view, "the reference belongs to the listed values"}}});
  cases.add({.op = "isclose",
             .name = "an infinite tolerance",
             .inputs = {{.sizes = {4}, .values = {kInfinity, 3, kInfinity, -kInfinity}},
                        {.sizes = {4}, .values = {2, 2, kInfinity, kInfinity}}},
             .run = [](In x) { return one(isclose(x[0], x[1], 0, kInfinity)); },
             .reference =
                 [](Arrays) {
                   return one(array_of_values({0, 1, 1, 0}));
                 },
             .output_dtype = always_bool,
             .opt_out = {{Mode::grad, "the result is bool"},
                         {Mode::view, "the reference belongs to the listed values"}}});
  cases.add(
      {.op = "isclose",
       .name = "integers",
       .inputs = {{.sizes = {3}, .values = {10, 10, 0}}, {.sizes = {3}, .values = {11, 12, 1}}},
       .run = [](In x) { return one(isclose(x[0], x[1], 0.1, 0)); },
       .reference =
           [](Arrays) {
             return one(array_of_values({1, 0, 0}));
           },
       .dtypes = integer_dtypes(),
       .output_dtype = always_bool,
       .opt_out = {{Mode::view, "the reference belongs to the listed values"}}});
  // Answers of type bool, one after another.
  cases.add({.op = "allclose",
             .name = "allclose and equal",
             .inputs = {{{3, 4}}},
             .run =
                 [](In x) {
                   const Tensor y = add(x[0], 1);
                   const Tensor wider = zeros({1, 1, 1}, {.device = device()});
                   return one(full({1},
                                   Scalar(allclose(x[0], x[0]) && !allclose(x[0], y) &&
                                          allclose(x[0], y, 0, 2) && equal(x[0], x[0]) &&
                                          !equal(x[0], y) && !equal(x[0], add(x[0], wider))),
                                   {.dtype = kBool, .device = device()}));
                 },
             .reference = [](Arrays) { return one(array_of_values({1})); },
             .output_dtype = always_bool,
             .opt_out = {{Mode::grad, "the result is bool"},
                         {Mode::meta, "needs the values"},
                         {Mode::jit, "needs the values"}}});
  cases.error("isclose", "two dtypes", "expected operands of one dtype, got float32 and float64",
              [] { isclose(ones({2}), ones({2}, {.dtype = kFloat64})); });
  cases.error("isclose", "negative rtol", "rtol must not be negative",
              [] { isclose(ones({2}), ones({2}), -1); });
}

}  // namespace

void logical_cases(Cases& cases) {
  for (const BinaryRow& row : kComparisons) add_binary(cases, row, predicate_types());
  add_bits(cases);
  add_wide_shifts(cases);
  add_closeness(cases);
  cases.error("bitwise_and", "floats", "expected integer or bool tensors, got float32",
              [] { ones({2}) & ones({2}); });
  cases.error("bitwise_not", "floats", "expected integer tensors, got float32", [] { ~ones({2}); });
  cases.error("bitwise_left_shift", "bool", "expected integer tensors, got bool",
              [] { ones({2}, {.dtype = kBool}) << ones({2}, {.dtype = kBool}); });
}

}  // namespace tensora::suite
