// Values and gradients where definitions leave a choice: ties, NaN, overflow, narrow integers,
// division by zero. What is expected is what PyTorch 2.15 answers on the CPU.
#include <limits>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

using Numbers = std::vector<double>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Input given(const Numbers& values, DType dtype) {
  return {.sizes = {static_cast<int64_t>(values.size())}, .dtype = dtype, .values = values};
}

Array array_of(const Numbers& values) {
  Array result({static_cast<int64_t>(values.size())});
  result.values = values;
  return result;
}

// The op on the given inputs gives `expected`, of dtype `result`.
void fixed(Cases& cases, const char* op, std::string name, std::vector<Input> inputs, DType result,
           Numbers expected, std::function<Tensor(In)> run) {
  cases.add(
      {.op = op,
       .name = std::move(name),
       .inputs = std::move(inputs),
       .run = [run = std::move(run)](In x) { return one(run(x)); },
       .reference = [expected = std::move(expected)](Arrays) { return one(array_of(expected)); },
       .dtypes = {kFloat32},
       .output_dtype = [result](DType) { return result; },
       .opt_out = {{Mode::grad, "the values are what counts"},
                   {Mode::view, "the expected result belongs to these very values"}}});
}

// The gradients of the sum of the op's results with respect to all inputs, one after another.
void gradients(Cases& cases, const char* op, std::string name, std::vector<Numbers> inputs,
               std::vector<Numbers> expected, std::function<Tensor(In)> run) {
  std::vector<Input> made;
  for (const Numbers& values : inputs) made.push_back(given(values, kFloat32));
  ArrayList results;
  for (const Numbers& values : expected) results.push_back(array_of(values));
  cases.add({.op = op,
             .name = std::move(name),
             .inputs = std::move(made),
             .run =
                 [run = std::move(run), count = expected.size()](In x) {
                   std::vector<Tensor> leaves;
                   for (const Tensor& input : x) leaves.push_back(input.detach().requires_grad_());
                   const Tensor total = sum(run(leaves));
                   leaves.resize(count);
                   return grad(total, leaves);
                 },
             .reference = [results = std::move(results)](Arrays) { return results; },
             .dtypes = {kFloat32},
             .opt_out = {{Mode::grad, "the case is a gradient itself"},
                         {Mode::view, "the expected gradient belongs to these very values"},
                         {Mode::meta, "needs values"},
                         {Mode::jit, "gradients are not traced"}}});
}

void ties(Cases& cases) {
  const Numbers a = {1, 2, 3, nan, 1}, b = {2, 2, 2, 2, nan};
  const Numbers lower = {1, .5, 0, 1, 1}, upper = {0, .5, 1, 1, 1};
  gradients(cases, "clamp_min", "ties share the gradient", {a, b}, {upper, lower},
            [](In x) { return clamp_min(x[0], x[1]); });
  gradients(cases, "clamp_max", "ties share the gradient", {a, b}, {lower, upper},
            [](In x) { return clamp_max(x[0], x[1]); });
  gradients(cases, "fmax", "ties share the gradient", {a, b}, {{0, .5, 1, 0, 1}, {1, .5, 0, 1, 0}},
            [](In x) { return fmax(x[0], x[1]); });
  gradients(cases, "fmin", "ties share the gradient", {a, b}, {{1, .5, 0, 0, 1}, {0, .5, 1, 1, 0}},
            [](In x) { return fmin(x[0], x[1]); });
  gradients(cases, "clamp", "ties with tensors",
            {{1, 2, 2.5, 3, 4, 2, nan, 3, 1, 4},
             {2, 2, 2, 2, 2, 2, 2, 3, 2, 2},
             {3, 3, 3, 3, 3, 2, 3, 2, 2, 2}},
            {{0, .5, 1, .5, 0, 1, 1, 0, 0, 0},
             {1, .5, 0, 0, 0, 0, 0, 0, 1, 0},
             {0, 0, 0, .5, 1, 0, 0, 1, 0, 1}},
            [](In x) { return clamp(x[0], x[1], x[2]); });
  gradients(cases, "clamp", "ties with numbers", {{1, 2, 2.5, 3, 4, nan}}, {{0, 0, 1, 0, 0, 0}},
            [](In x) { return clamp(x[0], 2, 3); });
  gradients(cases, "clamp_min", "ties with a number", {{1, 2, 3, nan}}, {{0, 0, 1, 0}},
            [](In x) { return clamp_min(x[0], 2); });
  gradients(cases, "clamp_max", "ties with a number", {{1, 2, 3, nan}}, {{1, 0, 0, 0}},
            [](In x) { return clamp_max(x[0], 2); });
}

void not_a_number(Cases& cases) {
  const auto at_nan = [&](const char* op, double expected, Tensor (*run)(const Tensor&)) {
    gradients(cases, op, "gradient at NaN", {{nan, 1e-3}}, {{expected, 1}},
              [run](In x) { return run(x[0]); });
  };
  at_nan("relu", 1, [](const Tensor& x) { return relu(x); });
  at_nan("relu6", 1, [](const Tensor& x) { return relu6(x); });
  at_nan("hardtanh", 1, [](const Tensor& x) { return hardtanh(x); });
  at_nan("elu", 1, [](const Tensor& x) { return elu(x); });
  at_nan("celu", 1, [](const Tensor& x) { return celu(x); });
  at_nan("leaky_relu", 0.01, [](const Tensor& x) { return leaky_relu(x); });
  gradients(cases, "selu", "gradient at NaN", {{nan}}, {{1.0507009873554805}},
            [](In x) { return selu(x[0]); });
}

void large_and_small(Cases& cases) {
  gradients(cases, "mish", "gradient far out", {{1e20, 100, 20, -1e20}}, {{1, 1, 1, 0}},
            [](In x) { return mish(x[0]); });
  gradients(cases, "div", "the divisor's square overflows", {{1e20, 1}, {1e30, 1e-15}},
            {{1e-30, 1e15}, {-1e-40, -1e30}}, [](In x) { return x[0] / x[1]; });
  gradients(cases, "remainder", "the quotient that belongs to the remainder",
            {{1, 5, -5, 7.3, -1e-4}, {0.1, 3, 3, -0.1, 100}}, {{1, 1, 1, 1, 1}, {-9, -1, 2, 74, 1}},
            [](In x) { return remainder(x[0], x[1]); });
  fixed(cases, "addcdiv", "scales before it divides",
        {given({0}, kFloat32), given({1e30}, kFloat32), given({1e-20}, kFloat32)}, kFloat32, {1e30},
        [](In x) { return addcdiv(x[0], x[1], x[2], 1e-20); });
  // Digits from the series at -x and 1 + x, in higher precision.
  fixed(cases, "polygamma", "order 1 near zero and at infinity",
        {given({kInfinity, -1e-5, -1e-3, -0.1, 1e10}, kFloat32)}, kFloat32,
        {0, 1.0000000001644958e10, 1000001.6473414, 101.9225399594771, 1e-10},
        [](In x) { return polygamma(1, x[0]); });
}

void narrow_integers(Cases& cases) {
  const Input bytes = given({1, 2, 3, 4}, kUInt8), small = given({1, 2, 3, 4}, kInt8);
  const Input wide{.sizes = {}, .dtype = kInt64, .values = {260}};
  fixed(cases, "floor_divide", "uint8 by a negative number", {bytes}, kUInt8, {0, 0, 0, 0},
        [](In x) { return floor_divide(x[0], -2); });
  fixed(cases, "clamp_max", "0-dim int64 by int8", {wide, small}, kInt8, {1, 2, 3, 4},
        [](In x) { return clamp_max(x[0], x[1]); });
  fixed(cases, "maximum", "0-dim int64 and int8", {wide, small}, kInt8, {4, 4, 4, 4},
        [](In x) { return maximum(x[0], x[1]); });
  fixed(cases, "eq", "0-dim int64 and int8", {wide, small}, kBool, {0, 0, 0, 1},
        [](In x) { return x[0] == x[1]; });
  fixed(cases, "eq", "uint8 and a negative number", {given({255, 2}, kUInt8)}, kBool, {1, 0},
        [](In x) { return x[0] == -1; });
  fixed(cases, "where", "a 0-dim int64 branch", {small, wide}, kInt8, {4, 4, 3, 4},
        [](In x) { return where(x[0] < 3, x[1], x[0]); });
}

void accepted(Cases& cases) {
  fixed(cases, "floor_divide", "nothing by zero", {given({}, kInt64)}, kInt64, {},
        [](In x) { return floor_divide(x[0], 0); });
  const Input bools = given({1, 0}, kBool);
  fixed(cases, "where", "a uint8 condition", {given({1, 0, 2}, kUInt8), given({1, 2, 3}, kInt8)},
        kInt8, {1, 0, 3}, [](In x) { return where(x[0], x[1], 0); });
  fixed(cases, "square", "bool", {bools}, kInt64, {1, 0}, [](In x) { return square(x[0]); });
  fixed(cases, "pow", "bool to the power true", {bools}, kBool, {1, 0},
        [](In x) { return pow(x[0], true); });
  fixed(cases, "pow", "bool to the power false", {bools}, kBool, {1, 1},
        [](In x) { return pow(x[0], false); });
  fixed(cases, "pow", "bool squared", {bools}, kInt64, {1, 0}, [](In x) { return pow(x[0], 2); });
  constexpr double inf = std::numeric_limits<double>::infinity();
  fixed(cases, "pow", "a root in place", {given({-inf, -0.0, 4}, kFloat32)}, kFloat32, {nan, 0, 2},
        [](In x) { return pow_(clone(x[0]), 0.5); });
  fixed(cases, "clamp_min", "bool", {bools, given({1, 1}, kBool)}, kBool, {1, 1},
        [](In x) { return clamp(x[0], x[1]); });
  fixed(cases, "clamp_max", "bool", {bools, given({0, 1}, kBool)}, kBool, {0, 0},
        [](In x) { return clamp_max(x[0], x[1]); });
}

void refused(Cases& cases) {
  const auto ints = [](std::initializer_list<NestedList> list, DType dtype = kInt64) {
    return tensor(NestedList(list), {.dtype = dtype});
  };
  const std::string zero = "ZeroDivisionError";
  using Op = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Op> ops[] = {
      {"floor_divide", [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); }},
      {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a, b); }},
      {"fmod", [](const Tensor& a, const Tensor& b) { return fmod(a, b); }},
      {"div", [](const Tensor& a, const Tensor& b) { return div(a, b, "trunc"); }}};
  for (const auto& [op, run] : ops) {
    for (const DType dtype : {kUInt8, kInt8, kInt16, kInt32, kInt64})
      cases.error(op, concat("by integer zero ", dtype), zero, [=, run = run] {
        run(ints({1, 2}, dtype), ints({1, 0}, dtype));
      });
    cases.error(op, "by a 0-dim zero", zero, [=, run = run] { run(ints({1}), tensor(0)); });
    cases.error(op, "by a number that wraps to zero", zero,
                [=, run = run] { run(ints({1}, kUInt8), wrap_number(256)); });
  }
  cases.error("add", "a float alpha for integers", "alpha must be an integer",
              [=] { add(ints({1}), ints({2}), 1.5); });
  cases.error("sub", "a float alpha for integers", "alpha must be an integer",
              [=] { sub(ints({1}), ints({2}), 2.0); });
  cases.error("add", "a bool alpha for integers", "got a bool",
              [=] { add(ints({1}), ints({2}), true); });
  cases.error("where", "an int8 condition", "bool or uint8",
              [=] { where(ints({1}, kInt8), ints({1}), ints({2})); });
  cases.error("pow", "bool tensors", "bool tensors are not supported",
              [] { pow(ones({2}, {.dtype = kBool}), ones({2}, {.dtype = kBool})); });
}

// The order of the dims in memory survives, with gaps in the inputs and without.
void layouts(Cases& cases) {
  struct Row {
    const char* name;
    std::function<Tensor(const Tensor&)> run;
    Strides strides;
  };
  const Row rows[] = {
      {"add", [](const Tensor& x) { return x + 1; }, {1, 20, 4}},
      {"abs", [](const Tensor& x) { return abs(x); }, {1, 20, 4}},
      {"clone", [](const Tensor& x) { return clone(x); }, {1, 20, 4}},
      {"cast", [](const Tensor& x) { return x.to(kFloat16); }, {1, 20, 4}},
      {"add", [](const Tensor& x) { return x + zeros({5}); }, {1, 20, 4}},
      {"add",
       [](const Tensor& x) {
         return zeros({4, 3, 5}) + x;
       },
       {15, 5, 1}},
      {"add",
       [](const Tensor& x) {
         return x + zeros({4, 3, 5});
       },
       {1, 20, 4}},
  };
  for (const Row& row : rows)
    cases.add({.op = row.name,
               .name = concat("strides of a permuted input with gaps ", row.strides),
               .run =
                   [row](In) {
                     const Tensor x = permute(slice(zeros({6, 5, 4}), 0, 0, 6, 2), {2, 0, 1});
                     const Strides strides = row.run(x).strides();
                     return one(tensor(std::vector<int64_t>(strides.begin(), strides.end())));
                   },
               .reference =
                   [row](Arrays) {
                     Array result({3});
                     for (int d = 0; d < 3; ++d) result[d] = double(row.strides[d]);
                     return one(result);
                   },
               .dtypes = {kInt64},
               .opt_out = {{Mode::grad, "has no inputs"},
                           {Mode::view, "has no inputs"},
                           {Mode::inplace, "has no inputs"},
                           {Mode::meta, "has no inputs"},
                           {Mode::jit, "has no inputs"}}});
}

}  // namespace

void edges_cases(Cases& cases) {
  ties(cases);
  not_a_number(cases);
  large_and_small(cases);
  narrow_integers(cases);
  accepted(cases);
  refused(cases);
  layouts(cases);
}

}  // namespace tensora::suite
