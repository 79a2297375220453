#include <cmath>
#include <limits>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// The position of the first extremum; NaN beats everything.
size_t position(const Values& values, bool largest) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const bool beats = largest ? values[i] > values[best] : values[i] < values[best];
    if (beats || (std::isnan(values[i]) && !std::isnan(values[best]))) best = i;
  }
  return best;
}

ArrayList expected(const Array& x, const Dims& dim, bool keepdim, bool largest) {
  return {reduced(x, dim, keepdim,
                  [&](const Values& values) { return values[position(values, largest)]; }),
          reduced(x, dim, keepdim, [&](const Values& values) {
            return static_cast<double>(position(values, largest));
          })};
}

void add_with_values(Cases& cases, const ReduceSample& sample, const std::vector<DType>& dtypes,
                     const Values& values = {}) {
  if (sample.dim.size() != 1) return;
  for (const bool largest : {true, false}) {
    cases.add(
        {.op = largest ? "max" : "min",
         .name = concat("with indices, ", sample.name),
         .inputs = {{.sizes = sample.sizes, .values = values}},
         .run =
             [sample, largest](In x) {
               const auto [best, index] = largest ? max(x[0], sample.dim[0], sample.keepdim)
                                                  : min(x[0], sample.dim[0], sample.keepdim);
               return Out{best, index};
             },
         .reference = [sample, largest](
                          Arrays x) { return expected(x[0], sample.dim, sample.keepdim, largest); },
         .dtypes = dtypes,
         .output_dtypes = {std::nullopt, kInt64}});
    if (!values.empty()) cases.samples.back().opt_out = {{Mode::grad, "ties or NaN"}};
    if (sample.sizes.numel() > 10000)
      cases.samples.back().opt_out = {
          {Mode::grad, "neighbours closer than the step of finite differences"}};
  }
}

void add_positions(Cases& cases, const ReduceSample& sample, const std::vector<DType>& dtypes,
                   const Values& values = {}) {
  if (sample.dim.size() > 1) return;
  const std::optional<int64_t> dim =
      sample.dim.empty() ? std::nullopt : std::optional(sample.dim[0]);
  for (const bool largest : {true, false})
    cases.add({.op = largest ? "argmax" : "argmin",
               .name = sample.name,
               .inputs = {{.sizes = sample.sizes, .values = values}},
               .run =
                   [dim, keepdim = sample.keepdim, largest](In x) {
                     return one(largest ? argmax(x[0], dim, keepdim) : argmin(x[0], dim, keepdim));
                   },
               .reference =
                   [sample, largest](Arrays x) {
                     return one(expected(x[0], sample.dim, sample.keepdim, largest)[1]);
                   },
               .dtypes = dtypes,
               .output_dtype = [](DType) { return kInt64; },
               .opt_out = {{Mode::grad, "the result is integers"}}});
}

void errors(Cases& cases) {
  cases.error("max", "with indices over an empty dim", "has size 0", [] { max(ones({3, 0}), 1); });
  cases.error("min", "with indices over an empty dim", "has size 0", [] { min(ones({0}), 0); });
  cases.error("max", "with indices, dim out of range", "out of range", [] { max(ones({3}), 1); });
  cases.error("argmax", "of nothing", "has size 0", [] { argmax(ones({0, 3})); });
  cases.error("argmin", "over an empty dim", "has size 0", [] { argmin(ones({3, 0}), -1); });
  cases.error("argmin", "dim out of range", "out of range", [] { argmin(ones({3, 2}), -3); });
}

}  // namespace

void max_dim_cases(Cases& cases) {
  for (const ReduceSample& sample : reduce_samples()) {
    add_with_values(cases, sample, all_dtypes());
    add_positions(cases, sample, all_dtypes());
  }
  for (const ReduceSample& sample : long_reduce_samples()) {
    add_with_values(cases, sample, long_dtypes(all_dtypes()));
    add_positions(cases, sample, long_dtypes(all_dtypes()));
  }

  const Values nans = {1, kNan, kNan, 3, 3, 1, -kInf, -kInf, -kInf, kInf, kNan, 2};
  add_with_values(cases, {"NaN and ties", {4, 3}, {1}}, floating_dtypes(), nans);
  add_with_values(cases, {"NaN and ties, columns", {4, 3}, {0}}, floating_dtypes(), nans);
  add_positions(cases, {"NaN and ties", {4, 3}, {}}, floating_dtypes(), nans);
  add_positions(cases, {"NaN and ties, rows", {4, 3}, {-1}, true}, floating_dtypes(), nans);
  // Ties far apart, so that they fall into different blocks, lanes and chunks.
  Values far(200000, 0);
  for (size_t i : {size_t(1500), size_t(1501), size_t(90000), size_t(199999)}) far[i] = 7;
  add_positions(cases, {"ties in one long run", {200000}, {}}, {kFloat32, kInt64}, far);
  add_positions(cases, {"ties in long columns", {50000, 4}, {0}}, {kFloat32, kInt64}, far);
  add_positions(cases, {"ties in long rows", {2, 100000}, {1}}, {kFloat16, kFloat64}, far);
  cases.add(gradient_case("max", "with indices: the first of ties gets the gradient", {2, 3},
                          {1, 4, 4, 2, 2, 2}, {0, 1, 0, 1, 0, 0},
                          [](const Tensor& x) { return std::get<0>(max(x, 1)); }));
  cases.add(gradient_case("min", "with indices: the first of ties gets the gradient", {3, 2},
                          {1, 4, 1, 2, 3, 2}, {1, 0, 0, 1, 0, 0},
                          [](const Tensor& x) { return std::get<0>(min(x, 0, true)); }));
  errors(cases);
}

}  // namespace tensora::suite
