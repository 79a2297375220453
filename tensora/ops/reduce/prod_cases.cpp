#include <limits>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {
namespace {

double product(const Values& values) {
  double result = 1;
  for (double value : values) result *= value;
  return result;
}

}  // namespace

void prod_cases(Cases& cases) {
  const ReduceCase reduction{
      .op = "prod",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return prod(x, dim, keepdim); },
      .fold = product,
      .low = 0.9,
      .high = 1.15,
      .tolerance = 5};
  add_reductions(cases, reduction, reduce_samples());
  add_reductions(cases, reduction, empty_reduce_samples());
  add_dim_errors(cases, "prod", [](const Tensor& x, const Dims& dim) { prod(x, dim); });

  ReduceCase integers = reduction;
  integers.dtypes = integral_dtypes();
  integers.output_dtype = int_to_int64;
  integers.low = -2, integers.high = 3;
  const ReduceSample small[] = {{"of integers", {4, 5}, {1}},
                                {"of integers, columns", {5, 4}, {0}},
                                {"of integers, all", {3, 4}, {}}};
  add_reductions(cases, integers, small);

  // The gradient at zeros, of first and second order, along any dims.
  ReduceCase zeros = reduction;
  zeros.low = -3;
  add_reduction(cases, zeros, {"zeros, rows", {4, 3}, {1}}, {1, 2, 3, 0, 2, -3, 0, 0, 2, 0, 0, 0});
  add_reduction(cases, zeros, {"zeros, columns", {3, 4}, {0}},
                {1, 2, 0, 0, 1.5, 2, 2, -3, 0, 0, 2, 1});
  add_reduction(cases, zeros, {"one zero among many", {7}, {}}, {1, 2, 0.5, 0, -1, 2, 1.5});
  add_reduction(cases, zeros, {"two zeros in several dims", {2, 2, 3}, {0, 2}, true},
                {1, 0, 2, 3, 1, 2, 0, 2, 1, 1, 1, 0.5});
  add_reduction(cases, zeros, {"a single zero", {}, {}}, {0});

  cases.add({.op = "prod",
             .name = "of float32 as float64",
             .inputs = {{.sizes = {4, 5}}},
             .run = [](In x) { return one(prod(x[0], 1, false, kFloat64)); },
             .reference = [](Arrays x) { return one(reduced(x[0], {1}, false, product)); },
             .dtypes = {kFloat32},
             .output_dtype = [](DType) { return kFloat64; }});
  ReduceCase special = reduction;
  special.opt_out = {{Mode::grad, "NaN"}};
  add_reduction(cases, special, {"NaN", {2, 2}, {1}},
                {1, std::numeric_limits<double>::quiet_NaN(), 2, 3});
}

}  // namespace tensora::suite
