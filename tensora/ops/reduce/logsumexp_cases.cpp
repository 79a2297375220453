#include <algorithm>
#include <cmath>
#include <limits>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {

void logsumexp_cases(Cases& cases) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const ReduceCase reduction{.op = "logsumexp",
                             .run = [](const Tensor& x, const Dims& dim,
                                       bool keepdim) { return logsumexp(x, dim, keepdim); },
                             .fold =
                                 [](const Values& values) {
                                   double highest = -inf;
                                   for (double value : values) highest = std::max(highest, value);
                                   if (std::isinf(highest)) highest = 0;
                                   double total = 0;
                                   for (double value : values) total += std::exp(value - highest);
                                   return std::log(total) + highest;
                                 }};
  add_reductions(cases, reduction, reduce_samples());
  add_long_reductions(cases, reduction);
  ReduceCase rows_on_chip = reduction;
  rows_on_chip.dtypes = {kBFloat16, kFloat32};
  add_reductions(cases, rows_on_chip, row_reduce_samples());
  add_dim_errors(cases, "logsumexp", [](const Tensor& x, const Dims& dim) { logsumexp(x, dim); });

  ReduceCase special = reduction;
  special.opt_out = {{Mode::grad, "infinite"}};
  add_reductions(cases, special, empty_reduce_samples());
  const Values extremes = {-inf, -inf, -inf, inf, 0, 1, -inf, 2, 3, nan, inf, 0};
  add_reduction(cases, special, {"infinities and NaN", {4, 3}, {1}}, extremes);
  add_reduction(cases, special, {"infinities and NaN, columns", {3, 4}, {0}}, extremes);
  // exp of these overflows (underflows); in different blocks, so that they are combined too.
  Values large(9000, -1000);
  large[10] = 999, large[8000] = 1001;
  ReduceCase wide = reduction;
  wide.dtypes = {kFloat32, kFloat64};
  add_reduction(cases, wide, {"large numbers", {9000}, {}}, large);
  add_reduction(cases, wide, {"large numbers, columns", {4500, 2}, {0}}, large);
  ReduceCase integers = reduction;
  integers.dtypes = integral_dtypes();
  integers.output_dtype = [](DType) { return default_dtype(); };
  const ReduceSample rows{"of integers", {3, 7}, {1}};
  add_reductions(cases, integers, {&rows, 1});
}

}  // namespace tensora::suite
