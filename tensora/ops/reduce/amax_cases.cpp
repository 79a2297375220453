#include <cmath>
#include <limits>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double largest(const Values& values) {
  double result = -kInf;
  for (double value : values)
    if (value > result || std::isnan(value)) result = value;
  return result;
}

double smallest(const Values& values) {
  Values negated = values;
  for (double& value : negated) value = -value;
  return -largest(negated);
}

void over_dims(Cases& cases) {
  const ReduceCase highest{
      .op = "amax",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return amax(x, dim, keepdim); },
      .fold = largest,
      .dtypes = all_dtypes()};
  const ReduceCase lowest{
      .op = "amin",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return amin(x, dim, keepdim); },
      .fold = smallest,
      .dtypes = all_dtypes()};
  for (ReduceCase reduction : {highest, lowest}) {
    add_reductions(cases, reduction, reduce_samples());
    ReduceCase extended = reduction;
    extended.opt_out = {{Mode::grad, "neighbours closer than the step of finite differences"}};
    add_long_reductions(cases, extended);

    add_dim_errors(cases, reduction.op,
                   [run = reduction.run](const Tensor& x, const Dims& dim) { run(x, dim, false); });
    cases.error(reduction.op, "over an empty dim", "has size 0", [run = reduction.run] {
      run(ones({3, 0}), {1}, false);
    });
    reduction.dtypes = floating_dtypes();
    reduction.opt_out = {{Mode::grad, "NaN and infinities"}};
    add_reduction(cases, reduction, {"NaN wins, rows", {4, 2}, {1}},
                  {kNan, 1, 1, kNan, kInf, -kInf, kNan, kInf});
    add_reduction(cases, reduction, {"NaN wins, columns", {2, 4}, {0}},
                  {kNan, 1, kInf, kNan, 1, kNan, -kInf, kInf});
    Values long_row(500, 1);
    long_row[333] = kNan;
    add_reduction(cases, reduction, {"NaN in a long row", {500}, {0}}, long_row);
    add_reduction(cases, reduction, {"infinities alone", {2, 2}, {1}}, {-kInf, -kInf, kInf, kInf});
  }
  cases.add(gradient_case("amax", "ties share the gradient", {2, 3}, {1, 2, 2, 3, 3, 3},
                          {0, 0.5, 0.5, 1. / 3, 1. / 3, 1. / 3},
                          [](const Tensor& x) { return amax(x, 1); }));
  cases.add(gradient_case("amin", "ties share the gradient", {4}, {1, 2, 1, 3}, {0.5, 0, 0.5, 0},
                          [](const Tensor& x) { return amin(x); }));
}

void over_everything(Cases& cases) {
  const ReduceCase highest{.op = "max",
                           .run = [](const Tensor& x, const Dims&, bool) { return max(x); },
                           .fold = largest,
                           .dtypes = all_dtypes()};
  const ReduceCase lowest{.op = "min",
                          .run = [](const Tensor& x, const Dims&, bool) { return min(x); },
                          .fold = smallest,
                          .dtypes = all_dtypes()};
  for (ReduceCase reduction : {highest, lowest}) {
    for (const Shape& sizes : {Shape{3, 4, 5}, Shape{}, Shape{1}, Shape{700}, Shape{2, 40000}}) {
      const ReduceSample sample{"all", sizes, {}};
      add_reductions(cases, reduction, {&sample, 1});
      cases.samples.back().name = concat("all of ", sizes);
    }
    cases.error(reduction.op, "of nothing", "has size 0",
                [run = reduction.run] { run(ones({0}), {}, false); });
    reduction.dtypes = floating_dtypes();
    reduction.opt_out = {{Mode::grad, "NaN"}};
    add_reduction(cases, reduction, {"NaN wins", {4}, {}}, {1, kNan, kInf, -kInf});
  }
  cases.add(gradient_case("max", "ties share the gradient", {4}, {5, 2, 5, 3}, {0.5, 0, 0.5, 0},
                          [](const Tensor& x) { return max(x); }));
  cases.add(gradient_case("max", "NaN gets the gradient", {4}, {5, kNan, 5, kNan}, {0, 0.5, 0, 0.5},
                          [](const Tensor& x) { return max(x); }));
  cases.add(gradient_case("min", "ties share the gradient", {4}, {2, 2, 5, 3}, {0.5, 0.5, 0, 0},
                          [](const Tensor& x) { return min(x); }));
}

void both(Cases& cases) {
  const auto add = [&](const ReduceSample& sample, const Values& values,
                       const std::vector<DType>& dtypes) {
    if (sample.dim.size() > 1) return;
    const std::optional<int64_t> dim =
        sample.dim.empty() ? std::nullopt : std::optional(sample.dim[0]);
    cases.add({.op = "aminmax",
               .name = sample.name,
               .inputs = {{.sizes = sample.sizes, .values = values}},
               .run =
                   [dim, keepdim = sample.keepdim](In x) {
                     const auto [low, high] = aminmax(x[0], dim, keepdim);
                     return Out{low, high};
                   },
               .reference =
                   [sample](Arrays x) {
                     return ArrayList{reduced(x[0], sample.dim, sample.keepdim, smallest),
                                      reduced(x[0], sample.dim, sample.keepdim, largest)};
                   },
               .dtypes = dtypes});
    if (!values.empty()) cases.samples.back().opt_out = {{Mode::grad, "NaN"}};
  };
  for (const ReduceSample& sample : reduce_samples()) add(sample, {}, all_dtypes());
  for (const ReduceSample& sample : long_reduce_samples()) {
    add(sample, {}, {kFloat32, kInt32});
    cases.samples.back().opt_out = {
        {Mode::grad, "neighbours closer than the step of finite differences"}};
  }
  add({"NaN is both", {2, 3}, {1}}, {1, kNan, 2, 5, 4, 3}, floating_dtypes());
  add({"NaN is both, columns", {3, 2}, {0}}, {1, kNan, 2, 5, 4, 3}, floating_dtypes());
  cases.error("aminmax", "over an empty dim", "has size 0", [] { aminmax(ones({3, 0}), 1); });
  cases.error("aminmax", "dim out of range", "out of range", [] { aminmax(ones({3}), 1); });
}

}  // namespace

void amax_cases(Cases& cases) {
  over_dims(cases);
  over_everything(cases);
  both(cases);
}

}  // namespace tensora::suite
