#pragma once

// Sample cases of pointwise ops: a row of a table names the op, its functions and the definition of
// one element in float64; shapes, broadcasts, special values and dtypes follow here.

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {

inline constexpr double kInfinity = HUGE_VAL;
inline const double kNotANumber = std::nan("");

/// The definition of one element applied to broadcast arrays.
inline ArrayList map_elements(Arrays operands,
                              const std::function<double(const double*)>& formula) {
  Shape sizes = operands[0].sizes;
  for (const Array& operand : operands) sizes = broadcast_shapes(sizes, operand.sizes, "map");
  ArrayList spread;
  for (const Array& operand : operands) spread.push_back(operand.broadcast_to(sizes));
  Array result(sizes);
  std::vector<double> elements(operands.size());
  for (int64_t i = 0; i < result.numel(); ++i) {
    for (size_t k = 0; k < elements.size(); ++k) elements[k] = spread[k][i];
    result[i] = formula(elements.data());
  }
  return one(std::move(result));
}

inline DType always_bool(DType) { return kBool; }
inline DType always_float(DType) { return kFloat32; }

/// Why cases with special values have no finite differences.
inline std::map<Mode, std::string> no_differences() {
  return {{Mode::grad, "the values include NaN, infinities and kinks"}};
}

/// One pointwise op of one operand.
struct UnaryRow {
  const char* op;
  std::function<Tensor(const Tensor&)> run;
  std::function<void(const Tensor&)> inplace;  // null: there is none
  std::function<double(double)> formula;
  double low = -3, high = 3;
  double tolerance = 1;
};

/// What the rows of a table share.
struct RowTypes {
  std::vector<DType> dtypes = floating_dtypes();
  /// Dtypes that are tried with whole numbers only, and what comes out of them.
  std::vector<DType> whole = {};
  std::function<DType(DType)> whole_output = nullptr;
  std::function<DType(DType)> output = nullptr;
  std::map<Mode, std::string> opt_out = {};
};

/// What a table of predicates has in common.
inline RowTypes predicate_types() {
  return {.whole = integral_dtypes(),
          .whole_output = always_bool,
          .output = always_bool,
          .opt_out = {{Mode::grad, "the result is bool"}}};
}

inline void add_unary(Cases& cases, const UnaryRow& row, const RowTypes& types) {
  Case sample{.op = row.op,
              .run = [run = row.run](In x) { return one(run(x[0])); },
              .reference =
                  [formula = row.formula](Arrays x) {
                    return map_elements(x, [&](const double* v) { return formula(*v); });
                  },
              .dtypes = types.dtypes,
              .output_dtype = types.output,
              .tolerance = row.tolerance,
              .opt_out = types.opt_out};
  if (row.inplace) sample.inplace = [inplace = row.inplace](In x) { inplace(x[0]); };
  const auto add = [&](const char* name, Input input) {
    sample.name = name;
    sample.inputs = {std::move(input)};
    cases.add(sample);
  };
  add("matrix", {{3, 4}, row.low, row.high});
  add("0-dim", {{}, row.low, row.high});
  add("empty", {{0, 3}, row.low, row.high});
  add("several tiles", {{1037, 2}, row.low, row.high});
  sample.opt_out = no_differences();
  add("special values", {.sizes = {16},
                         .values = {kNotANumber, kInfinity, -kInfinity, 0.0, -0.0, 1, -1, 0.5, -0.5,
                                    1.5, -2.5, 3, -3, 6, 100, -100}});
  if (types.whole.empty()) return;
  sample.dtypes = types.whole;
  sample.output_dtype = types.whole_output;
  add("whole numbers", {{3, 5}, row.low - 1, row.high + 1});
}

/// One pointwise op of two operands.
struct BinaryRow {
  const char* op;
  std::function<Tensor(const Tensor&, const Tensor&)> run;
  std::function<void(const Tensor&, const Tensor&)> inplace;  // null: there is none
  std::function<double(double, double)> formula;
  double low = -3, high = 3;              // of the first operand
  double other_low = -3, other_high = 3;  // of the second
  std::function<Tensor(const Tensor&, Scalar)> with_number = nullptr;
};

inline void add_binary(Cases& cases, const BinaryRow& row, const RowTypes& types) {
  const auto formula = row.formula;
  Case sample{.op = row.op,
              .run = [run = row.run](In x) { return one(run(x[0], x[1])); },
              .reference =
                  [formula](Arrays x) {
                    return map_elements(x, [&](const double* v) { return formula(v[0], v[1]); });
                  },
              .dtypes = types.dtypes,
              .output_dtype = types.output,
              .opt_out = types.opt_out};
  if (row.inplace) sample.inplace = [inplace = row.inplace](In x) { inplace(x[0], x[1]); };
  const auto add = [&](const char* name, Shape a, Shape b) {
    sample.name = name;
    sample.inputs = {{a, row.low, row.high}, {b, row.other_low, row.other_high}};
    cases.add(sample);
  };
  add("matrices", {3, 4}, {3, 4});
  add("row", {3, 4}, {4});
  add("column and row", {3, 1}, {1, 4});
  add("0-dim first", {}, {2, 3});
  add("0-dim second", {2, 3}, {});
  add("both 0-dim", {}, {});
  add("empty", {0, 3}, {1, 3});
  add("several tiles", {1037, 2}, {1037, 2});
  const std::vector<double> values{kNotANumber, kInfinity, -kInfinity, 0.0, -0.0, 1, -1, 2.5, -3};
  Case special = sample;
  special.name = "special values";
  special.opt_out = no_differences();
  special.inputs = {{.sizes = {9, 1}, .values = values}, {.sizes = {1, 9}, .values = values}};
  cases.add(special);
  if (!types.whole.empty()) {
    sample.dtypes = types.whole;
    sample.output_dtype = types.whole_output;
    add("whole numbers", {4, 5}, {5});
  }
  if (!row.with_number) return;
  sample.inplace = nullptr;
  sample.dtypes = types.dtypes;
  sample.output_dtype = types.output;
  sample.name = "number";
  sample.inputs = {{{3, 4}, row.low, row.high}};
  sample.run = [run = row.with_number](In x) { return one(run(x[0], 2)); };
  sample.reference = [formula](Arrays x) {
    return map_elements(x, [&](const double* v) { return formula(v[0], 2); });
  };
  cases.add(sample);
}

/// The gradients that `run` gives for outputs weighted by one, as outputs of a case.
inline Out gradients(In inputs, const std::function<Tensor(In)>& run) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  run(leaves).sum().backward();
  Out result;
  for (const Tensor& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

/// Gradients where finite differences cannot tell: at kinks and ties.
inline void add_gradient(Cases& cases, const char* op, const char* name, std::vector<Input> inputs,
                         std::function<Tensor(In)> run, ArrayList expected) {
  cases.add({.op = op,
             .name = name,
             .inputs = std::move(inputs),
             .run = [run](In x) { return gradients(x, run); },
             .reference = [expected](Arrays) { return expected; },
             .dtypes = {kFloat32, kFloat64},
             .opt_out = {{Mode::grad, "the outputs are gradients already"},
                         {Mode::view, "the expected gradients belong to the listed values"},
                         {Mode::meta, "gradients of unset values"},
                         {Mode::jit, "gradients are not traced"}}});
}

inline Array array_of_values(std::vector<double> values) {
  Array result(Shape{static_cast<int64_t>(values.size())});
  result.values = std::move(values);
  return result;
}

}  // namespace tensora::suite
