#include <cmath>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {
namespace {

double average(const Values& values) {
  double total = 0;
  for (double value : values) total += value;
  return total / static_cast<double>(values.size());
}

double variance(const Values& values, double correction) {
  const double center = average(values);
  double total = 0;
  for (double value : values) total += (value - center) * (value - center);
  return total / std::max(0.0, static_cast<double>(values.size()) - correction);
}

void add_pair(Cases& cases, const ReduceSample& sample, double correction, bool root) {
  cases.add({.op = root ? "std_mean" : "var_mean",
             .name = concat(sample.name, ", correction ", correction),
             .inputs = {{.sizes = sample.sizes}},
             .run =
                 [=](In x) {
                   const auto [spread, center] =
                       root ? std_mean(x[0], sample.dim, correction, sample.keepdim)
                            : var_mean(x[0], sample.dim, correction, sample.keepdim);
                   return Out{spread, center};
                 },
             .reference =
                 [=](Arrays x) {
                   const auto spread = [=](const Values& values) {
                     const double result = variance(values, correction);
                     return root ? std::sqrt(result) : result;
                   };
                   return ArrayList{reduced(x[0], sample.dim, sample.keepdim, spread),
                                    reduced(x[0], sample.dim, sample.keepdim, average)};
                 },
             .tolerance = 2});
}

ReduceCase spread(double correction, bool root) {
  return {.op = root ? "std" : "var",
          .run =
              [=](const Tensor& x, const Dims& dim, bool keepdim) {
                return root ? std(x, dim, correction, keepdim) : var(x, dim, correction, keepdim);
              },
          .fold =
              [=](const Values& values) {
                const double result = variance(values, correction);
                return root ? std::sqrt(result) : result;
              },
          .tolerance = 2};
}

bool enough(const ReduceSample& sample, double correction) {
  Array ones(sample.sizes, 1);
  const Array counts = reduced(ones, sample.dim, false, [](const Values& values) {
    return static_cast<double>(values.size());
  });
  return counts.numel() == 0 || counts[0] > correction;
}

void samples_of(Cases& cases, std::span<const ReduceSample> samples, double correction) {
  for (const ReduceSample& sample : samples) {
    if (!enough(sample, correction)) continue;
    for (const bool root : {false, true}) {
      // The root of the variance of one element has no slope.
      if (root && !enough(sample, 1)) continue;
      add_reductions(cases, spread(correction, root), {&sample, 1});
      cases.samples.back().name += concat(", correction ", correction);
      add_pair(cases, sample, correction, root);
    }
  }
}

void special_values(Cases& cases) {
  for (const bool root : {false, true}) {
    ReduceCase nothing = spread(1, root);
    nothing.opt_out = {{Mode::grad, "the result is NaN"}};
    add_reductions(cases, nothing, empty_reduce_samples());
    const ReduceSample single{"of one element", {3, 1}, {1}};
    add_reductions(cases, nothing, {&single, 1});
  }
  // The squares overflow float, their root does not.
  ReduceCase large = spread(1, true);
  large.dtypes = {kFloat32};
  large.opt_out = {{Mode::grad, "too large for differences"}};
  const Values huge = {1e25, 2e25, 3e25, -1e25, 1e25, 3e38};
  add_reduction(cases, large, {"of large numbers, rows", {2, 3}, {1}}, huge);
  add_reduction(cases, large, {"of large numbers, columns", {3, 2}, {0}}, huge);
  ReduceCase infinite = spread(1, false);
  infinite.dtypes = {kFloat32};
  infinite.opt_out = large.opt_out;
  add_reduction(cases, infinite, {"that overflows is infinite", {2, 3}, {1}}, huge);
  // Far from zero, a sum of squares would lose every digit.
  Values far;
  for (int i = 0; i < 6000; ++i) far.push_back(10000 + (i * 37 % 101) / 64.0);
  ReduceCase offset = spread(1, false);
  offset.dtypes = {kFloat32, kFloat64};
  add_reduction(cases, offset, {"far from zero, rows", {2, 3000}, {1}}, far);
  add_reduction(cases, offset, {"far from zero, columns", {1000, 6}, {0}}, far);
  for (const ReduceSample& sample : row_reduce_samples()) {
    Values rows;
    for (int64_t i = 0; i < sample.sizes.numel(); ++i)
      rows.push_back(10000 + static_cast<double>(i * 37 % 101) / 64);
    add_reduction(cases, offset, sample, rows);
    cases.samples.back().name += ", far from zero";
  }
  ReduceCase exact = spread(0, false);
  exact.dtypes = {kFloat32, kFloat64};
  exact.tolerance = 0;
  add_reduction(cases, exact, {"of equal elements is exactly 0", {5000}, {}}, Values(5000, 0.1));
  cases.samples.back().reference = [](Arrays) { return one(Array({}, 0)); };
  cases.samples.back().opt_out = {{Mode::grad, "finite differences of a minimum"}};
  cases.add(gradient_case("std", "of equal elements has gradient 0", {3}, {2, 2, 2}, {0, 0, 0},
                          [](const Tensor& x) { return std(x); }));
}

}  // namespace

void variance_cases(Cases& cases) {
  samples_of(cases, reduce_samples(), 1);
  samples_of(cases, reduce_samples(), 0);
  const size_t before = cases.samples.size();
  samples_of(cases, long_reduce_samples(), 1);
  for (size_t i = before; i < cases.samples.size(); ++i)
    cases.samples[i].dtypes = long_dtypes(cases.samples[i].dtypes);

  // The dtypes that are converted as a row is loaded; those that are not lie far from zero below.
  ReduceCase narrow = spread(1, false);
  narrow.dtypes = {kFloat16, kBFloat16};
  add_reductions(cases, narrow, row_reduce_samples());

  const ReduceSample rows{"rows", {5, 37}, {1}};
  samples_of(cases, {&rows, 1}, 2.5);
  special_values(cases);
  using Run = std::function<void(const Tensor&, const Dims&)>;
  const std::pair<const char*, Run> ops[] = {
      {"var", [](const Tensor& x, const Dims& dim) { var(x, dim); }},
      {"std", [](const Tensor& x, const Dims& dim) { std(x, dim); }},
      {"var_mean", [](const Tensor& x, const Dims& dim) { var_mean(x, dim); }},
      {"std_mean", [](const Tensor& x, const Dims& dim) { std_mean(x, dim); }}};
  for (const auto& [op, run] : ops) {
    add_dim_errors(cases, op, run);
    cases.error(op, "of integers", "expected a floating-point dtype, got int32",
                [run = run] { run(ones({3}, {.dtype = kInt32}), {}); });
  }
}

}  // namespace tensora::suite
