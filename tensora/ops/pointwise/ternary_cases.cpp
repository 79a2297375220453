#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

const Shape kShapes[][3] = {{{3, 4}, {3, 4}, {3, 4}}, {{3, 4}, {4}, {3, 1}},
                            {{2, 3}, {}, {}},         {{}, {}, {}},
                            {{0, 3}, {3}, {}},        {{1037, 2}, {2}, {1037, 1}}};

struct Row {
  const char* op;
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> run;
  std::function<void(const Tensor&, const Tensor&, const Tensor&)> inplace;
  double (*formula)(double, double, double);
  std::vector<DType> dtypes;
  double low[3], high[3];
};

double clamp_of(double x, double low, double high) {
  return x != x ? x : std::min(std::max(x, low), high);
}
double lerp_of(double a, double b, double weight) { return a + weight * (b - a); }

void add_rows(Cases& cases) {
  const Row rows[] = {
      {"clamp",
       [](const Tensor& x, const Tensor& a, const Tensor& b) { return clamp(x, a, b); },
       [](const Tensor& x, const Tensor& a, const Tensor& b) { clamp_(x, a, b); },
       clamp_of,
       number_dtypes(),
       {-3, -2, -1},
       {3, 1, 2}},
      {"lerp",
       [](const Tensor& x, const Tensor& a, const Tensor& b) { return lerp(x, a, b); },
       [](const Tensor& x, const Tensor& a, const Tensor& b) { lerp_(x, a, b); },
       lerp_of,
       floating_dtypes(),
       {-3, -3, -1},
       {3, 3, 2}},
      {"addcmul",
       [](const Tensor& x, const Tensor& a, const Tensor& b) { return addcmul(x, a, b, 2); },
       [](const Tensor& x, const Tensor& a, const Tensor& b) { addcmul_(x, a, b, 2); },
       [](double x, double a, double b) { return x + 2 * a * b; },
       number_dtypes(),
       {-3, -3, -3},
       {3, 3, 3}},
      {"addcdiv",
       [](const Tensor& x, const Tensor& a, const Tensor& b) { return addcdiv(x, a, b, 0.5); },
       [](const Tensor& x, const Tensor& a, const Tensor& b) { addcdiv_(x, a, b, 0.5); },
       [](double x, double a, double b) { return x + 0.5 * a / b; },
       floating_dtypes(),
       {-3, -3, 1},
       {3, 3, 3}},
  };
  for (const Row& row : rows)
    for (const Shape(&sizes)[3] : kShapes)
      cases.add({.op = row.op,
                 .name = concat(sizes[0], " ", sizes[1], " ", sizes[2]),
                 .inputs = {{sizes[0], row.low[0], row.high[0]},
                            {sizes[1], row.low[1], row.high[1]},
                            {sizes[2], row.low[2], row.high[2]}},
                 .run = [run = row.run](In x) { return one(run(x[0], x[1], x[2])); },
                 .reference =
                     [formula = row.formula](Arrays x) {
                       return map_elements(
                           x, [&](const double* v) { return formula(v[0], v[1], v[2]); });
                     },
                 .dtypes = row.dtypes,
                 .inplace = [inplace = row.inplace](In x) { inplace(x[0], x[1], x[2]); }});
}

void add_clamp_by_numbers(Cases& cases) {
  struct Bounds {
    const char* name;
    std::optional<Scalar> min, max;
    double low, high;
  };
  const Bounds table[] = {{"both", -1, 2, -1, 2},
                          {"min alone", 1, {}, 1, kInfinity},
                          {"max alone", {}, 1, -kInfinity, 1},
                          {"min above max", 2, -1, 2, -1}};
  for (const Bounds& bounds : table) {
    Case sample{.op = "clamp",
                .name = bounds.name,
                .inputs = {{{3, 7}}},
                .run = [=](In x) { return one(clamp(x[0], bounds.min, bounds.max)); },
                .reference =
                    [=](Arrays x) {
                      return map_elements(x, [&](const double* v) {
                        return clamp_of(*v, bounds.low, bounds.high);
                      });
                    },
                .dtypes = {kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64},
                .inplace = [=](In x) { clamp_(x[0], bounds.min, bounds.max); }};
    cases.add(sample);
    sample.name += ", special values";
    sample.inputs = {{.sizes = {5}, .values = {kNotANumber, kInfinity, -kInfinity, 0, -0.0}}};
    sample.dtypes = floating_dtypes();
    sample.opt_out = no_differences();
    cases.add(sample);
  }
  cases.add({.op = "clamp",
             .name = "large",
             .inputs = {{{1 << 20}}},
             .run = [](In x) { return one(clamp(x[0], -1, 1)); },
             .dtypes = {kFloat32},
             .big = true});
  cases.add({.op = "clamp",
             .name = "integers by fractions become float",
             .inputs = {{{3, 7}}},
             .run = [](In x) { return one(clamp(x[0], -0.5, 1.5)); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) { return clamp_of(*v, -0.5, 1.5); });
                 },
             .dtypes = integer_dtypes(),
             .output_dtype = always_float});
  add_gradient(cases, "clamp", "no gradient at the bounds",
               {{.sizes = {5}, .values = {-2, -1, 0, 1, 2}}},
               [](In x) { return clamp(x[0], -1, 1); }, {array_of_values({0, 0, 1, 0, 0})});
  cases.add({.op = "clamp",
             .name = "bounds beyond the dtype",
             .inputs = {{.sizes = {3}, .values = {0, 14, 200}}},
             .run = [](In x) { return one(clamp(x[0], -1, 300)); },
             .reference = [](Arrays x) { return one(x[0]); },
             .dtypes = {kUInt8},
             .inplace = [](In x) { clamp_(x[0], -1, 300); }});
  cases.error("clamp", "a min beyond the dtype", "min value 300 is out of the range of uint8",
              [] { clamp(ones({2}, {.dtype = kUInt8}), 300); });
  cases.error("clamp", "no bound", "at least one of min and max must be given",
              [] { clamp(ones({2}), Tensor(), Tensor()); });
  cases.error("clamp", "bool", "bool tensors are not supported",
              [] { clamp(ones({2}, {.dtype = kBool}), false, true); });
}

void add_where(Cases& cases) {
  for (const Shape(&sizes)[3] : kShapes)
    cases.add({.op = "where",
               .name = concat(sizes[0], " ", sizes[1], " ", sizes[2]),
               .inputs = {{.sizes = sizes[0], .dtype = kBool}, {sizes[1]}, {sizes[2]}},
               .run = [](In x) { return one(where(x[0], x[1], x[2])); },
               .reference =
                   [](Arrays x) {
                     return map_elements(x,
                                         [](const double* v) { return v[0] != 0 ? v[1] : v[2]; });
                   },
               .dtypes = all_dtypes()});
  cases.add({.op = "where",
             .name = "numbers",
             .inputs = {{.sizes = {3, 4}, .dtype = kBool}, {{3, 4}}},
             .run =
                 [](In x) {
                   return Out{where(x[0], x[1], 2), where(x[0], 2, x[1])};
                 },
             .reference =
                 [](Arrays x) {
                   ArrayList result =
                       map_elements(x, [](const double* v) { return v[0] != 0 ? v[1] : 2; });
                   result.push_back(
                       map_elements(x, [](const double* v) { return v[0] != 0 ? 2 : v[1]; })[0]);
                   return result;
                 },
             .dtypes = number_dtypes()});
  cases.add({.op = "where",
             .name = "what is not chosen has no influence",
             .inputs = {{.sizes = {2}, .dtype = kBool, .values = {1, 0}},
                        {.sizes = {2}, .values = {1, kNotANumber}},
                        {.sizes = {2}, .values = {kInfinity, 2}}},
             .run = [](In x) { return one(x[1].where(x[0], x[2])); },
             .reference =
                 [](Arrays) {
                   return one(array_of_values({1, 2}));
                 },
             .opt_out = {{Mode::grad, "the values include NaN and infinities"},
                         {Mode::view, "the reference belongs to the listed values"}}});
  cases.add({.op = "where",
             .name = "large",
             .inputs = {{.sizes = {1 << 20}, .dtype = kBool}, {{1 << 20}}, {{1 << 20}}},
             .run = [](In x) { return one(where(x[0], x[1], x[2])); },
             .dtypes = {kFloat32},
             .big = true});
  cases.error("where", "condition of numbers",
              "expected a condition of dtype bool or uint8, got float32",
              [] { where(ones({2}), ones({2}), ones({2})); });
}

void add_lerp(Cases& cases) {
  cases.add({.op = "lerp",
             .name = "number as weight",
             .inputs = {{{3, 4}}, {{4}}},
             .run = [](In x) { return one(lerp(x[0], x[1], 0.75)); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x,
                                       [](const double* v) { return lerp_of(v[0], v[1], 0.75); });
                 },
             .inplace = [](In x) { lerp_(x[0], x[1], 0.75); }});
  cases.error("lerp", "integers", "expected floating-point tensors", [] {
    const TensorOptions integers{.dtype = kInt64};
    lerp(ones({2}, integers), ones({2}, integers), 1);
  });
  cases.error("addcdiv", "integers", "expected floating-point tensors, got int64", [] {
    const Tensor ones_of_integers = ones({2}, {.dtype = kInt64});
    addcdiv(ones_of_integers, ones_of_integers, ones_of_integers);
  });
}

}  // namespace

void ternary_cases(Cases& cases) {
  add_rows(cases);
  add_clamp_by_numbers(cases);
  add_where(cases);
  add_lerp(cases);
}

}  // namespace tensora::suite
