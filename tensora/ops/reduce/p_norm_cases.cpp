#include <algorithm>
#include <cmath>
#include <limits>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double p_norm(const Values& values, double p) {
  double total = 0, highest = 0, lowest = kInf;
  for (double value : values) {
    total += p == 0 ? value != 0 : std::pow(std::abs(value), p);
    highest = std::max(highest, std::abs(value));
    lowest = std::min(lowest, std::abs(value));
  }
  if (p == 0) return total;
  if (std::isinf(p)) return p > 0 ? highest : lowest;
  return std::pow(total, 1 / p);
}

ReduceCase norm_case(double p) {
  return {.op = "norm",
          .run = [p](const Tensor& x, const Dims& dim,
                     bool keepdim) { return norm(x, p, dim, keepdim); },
          .fold = [p](const Values& values) { return p_norm(values, p); },
          .tolerance = 4};
}

}  // namespace

void p_norm_cases(Cases& cases) {
  for (const double p : {2.0, 1.0, 0.0, kInf, -kInf, 3.0, 1.5, 0.5, -1.0}) {
    ReduceCase reduction = norm_case(p);
    // The slope is steep near 0 where p < 2.
    if (p != 2) reduction.low = 0.3;
    const size_t before = cases.samples.size();
    add_reductions(cases, reduction, reduce_samples());
    if (p == 2) add_long_reductions(cases, reduction);

    reduction.low = -3;
    add_reduction(cases, reduction, {"signs", {2, 3}, {1}}, {-1, 2, -3, 2.5, -0.5, 1});
    if (p >= 0 && p < kInf) {
      ReduceCase nothing = reduction;
      nothing.opt_out = {{Mode::grad, "no slope"}};
      add_reductions(cases, nothing, empty_reduce_samples());
    } else {
      cases.error("norm", concat("of nothing, p = ", p), "has size 0", [p] { norm(ones({0}), p); });
    }
    for (size_t i = before; i < cases.samples.size(); ++i)
      cases.samples[i].name += concat(", p = ", p);
  }
  cases.add({.op = "norm",
             .name = "as float64",
             .inputs = {{.sizes = {4, 5}}},
             .run = [](In x) { return one(norm(x[0], 2, 1, false, kFloat64)); },
             .reference =
                 [](Arrays x) {
                   return one(reduced(x[0], {1}, false,
                                      [](const Values& values) { return p_norm(values, 2); }));
                 },
             .dtypes = {kFloat16, kFloat32},
             .output_dtype = [](DType) { return kFloat64; }});
  for (const double p : {1.0, 2.0, 3.0, 1.5})
    cases.add(gradient_case("norm", concat("of zeros has gradient 0, p = ", p), {2, 2},
                            {0, 0, 0, 0}, {0, 0, 0, 0},
                            [p](const Tensor& x) { return norm(x, p, 1); }));
  cases.add(gradient_case("norm", "ties share the gradient", {4}, {-3, 1, 3, 2}, {-0.5, 0, 0.5, 0},
                          [](const Tensor& x) { return norm(x, kInf); }));
  add_dim_errors(cases, "norm", [](const Tensor& x, const Dims& dim) { norm(x, 2, dim); });
  cases.error("norm", "of integers", "expected floating-point dtypes",
              [] { norm(ones({3}, {.dtype = kInt64})); });
  cases.error("norm", "p is NaN", "p must be a number",
              [] { norm(ones({3}), std::numeric_limits<double>::quiet_NaN()); });
}

}  // namespace tensora::suite
