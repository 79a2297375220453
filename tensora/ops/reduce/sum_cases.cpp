#include <cmath>
#include <limits>

#include "tensora/ops/reduce/reduce_cases.h"

namespace tensora::suite {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double total(const Values& values) {
  double result = 0;
  for (double value : values) result += value;
  return result;
}

double average(const Values& values) { return total(values) / static_cast<double>(values.size()); }

Values without_nan(const Values& values) {
  Values result;
  for (double value : values)
    if (!std::isnan(value)) result.push_back(value);
  return result;
}

void sums(Cases& cases) {
  const ReduceCase sums{
      .op = "sum",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return sum(x, dim, keepdim); },
      .fold = total,
      .dtypes = all_dtypes(),
      .output_dtype = int_to_int64,
      .low = -1};
  add_reductions(cases, sums, reduce_samples());
  add_long_reductions(cases, sums);
  add_reductions(cases, sums, empty_reduce_samples());
  const ReduceSample many_dims[] = {
      {"twelve dims", {2, 1, 2, 2, 1, 2, 1, 2, 2, 1, 2, 3}, {0, 2, 4, 6, 8, 10}},
      {"eleven dims, one reduced", {2, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2}, {4}}};
  add_reductions(cases, sums, many_dims);
  add_dim_errors(cases, "sum", [](const Tensor& x, const Dims& dim) { sum(x, dim); });
  ReduceCase special = sums;
  special.dtypes = floating_dtypes();
  special.opt_out = {{Mode::grad, "infinite"}};
  add_reduction(cases, special, {"NaN and infinities", {3, 3}, {1}},
                {1, kNan, 2, kInf, 1, 2, kInf, -kInf, 0});
  // Half types would stop growing at 2048 (256) if they were accumulated as they are.
  add_reduction(cases, special, {"many ones", {5000}, {}}, Values(5000, 1));
}

void means(Cases& cases) {
  const ReduceCase means{
      .op = "mean",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return mean(x, dim, keepdim); },
      .fold = average};
  add_reductions(cases, means, reduce_samples());
  add_long_reductions(cases, means);
  ReduceCase empty = means;
  empty.opt_out = {{Mode::grad, "the result is NaN"}};
  add_reductions(cases, empty, empty_reduce_samples());
  add_dim_errors(cases, "mean", [](const Tensor& x, const Dims& dim) { mean(x, dim); });
  cases.error("mean", "of integers", "expected a floating-point dtype, got int64",
              [] { mean(ones({3}, {.dtype = kInt64})); });
}

void casts(Cases& cases) {
  struct Cast {
    DType from, to;
  };
  for (const Cast cast : {Cast{kFloat32, kFloat64},
                          {kFloat16, kFloat32},
                          {kInt32, kFloat32},
                          {kInt64, kInt32},
                          {kFloat32, kInt64},
                          {kBool, kInt32},
                          {kUInt8, kUInt8},
                          {kFloat32, kBool},
                          {kFloat64, kFloat16}})
    cases.add({.op = "sum",
               .name = concat("of ", cast.from, " as ", cast.to),
               .inputs = {{.sizes = {4, 5}}},
               .run = [cast](In x) { return one(sum(x[0], {1}, false, cast.to)); },
               .reference =
                   [cast](Arrays x) {
                     return one(reduced(x[0], {1}, false, [cast](const Values& values) {
                       double result = 0;
                       for (double value : values)
                         result += cast.to == kBool             ? value != 0
                                   : is_floating_point(cast.to) ? value
                                                                : std::trunc(value);
                       return result;
                     }));
                   },
               .dtypes = {cast.from},
               .output_dtype = [cast](DType) { return cast.to; }});
  cases.samples.back().opt_out = {{Mode::grad, "float16 is too coarse for finite differences"}};

  cases.add({.op = "mean",
             .name = "of integers as float64",
             .inputs = {{.sizes = {4, 5}}},
             .run = [](In x) { return one(mean(x[0], 0, true, kFloat64)); },
             .reference = [](Arrays x) { return one(reduced(x[0], {0}, true, average)); },
             .dtypes = integral_dtypes(),
             .output_dtype = [](DType) { return kFloat64; }});
}

void nan_sums(Cases& cases) {
  const Values values = {1, kNan, 2, kNan, kNan, kNan, 4, 5, 6};
  const ReduceCase sums{
      .op = "nansum",
      .run = [](const Tensor& x, const Dims& dim, bool keepdim) { return nansum(x, dim, keepdim); },
      .fold = [](const Values& group) { return total(without_nan(group)); },
      .dtypes = number_dtypes(),
      .output_dtype = int_to_int64,
      .low = -1};
  add_reductions(cases, sums, reduce_samples());
  ReduceCase floating = sums;
  floating.dtypes = floating_dtypes();
  add_reduction(cases, floating, {"with NaN", {3, 3}, {1}}, values);
  add_reduction(cases, floating, {"with NaN, columns", {3, 3}, {0}}, values);
  const ReduceCase means{.op = "nanmean",
                         .run = [](const Tensor& x, const Dims& dim,
                                   bool keepdim) { return nanmean(x, dim, keepdim); },
                         .fold = [](const Values& group) { return average(without_nan(group)); }};
  add_reductions(cases, means, reduce_samples());
  add_reduction(cases, means, {"with NaN", {3, 3}, {0}}, values);
  ReduceCase nothing = means;
  nothing.opt_out = {{Mode::grad, "the result is NaN"}};
  add_reduction(cases, nothing, {"of NaN alone", {3, 3}, {1}}, values);
  cases.error("nanmean", "of integers", "expected a floating-point dtype",
              [] { nanmean(ones({3}, {.dtype = kInt32})); });
  cases.error("nansum", "dim out of range", "out of range", [] { nansum(ones({3}), {1}); });
}

void counts(Cases& cases) {
  const ReduceCase counts{
      .op = "count_nonzero",
      .run = [](const Tensor& x, const Dims& dim, bool) { return count_nonzero(x, dim); },
      .fold =
          [](const Values& values) {
            double result = 0;
            for (double value : values) result += value != 0;
            return result;
          },
      .dtypes = all_dtypes(),
      .output_dtype = [](DType) { return kInt64; },
      .low = -1,
      .opt_out = {{Mode::grad, "the result is integers"}}};
  for (const auto samples : {reduce_samples(), empty_reduce_samples()})
    for (const ReduceSample& sample : samples)
      if (!sample.keepdim) add_reductions(cases, counts, {&sample, 1});
  add_long_reductions(cases, counts);

  ReduceCase floating = counts;
  floating.dtypes = floating_dtypes();
  add_reduction(cases, floating, {"NaN counts", {4}, {}}, {0, kNan, -0.0, 2});
  add_dim_errors(cases, "count_nonzero",
                 [](const Tensor& x, const Dims& dim) { count_nonzero(x, dim); });
}

void sums_to_shape(Cases& cases) {
  struct Target {
    Shape from, to;
    Dims dim;
  };
  const Target targets[] = {{{2, 3, 4}, {3, 1}, {0, 2}},    {{2, 3, 4}, {}, {}},
                            {{2, 3, 4}, {1, 1, 4}, {0, 1}}, {{3, 4}, {4}, {0}},
                            {{5, 1, 3}, {1, 3}, {0}},       {{2, 3}, {1, 1}, {0, 1}},
                            {{0, 3}, {1, 3}, {0}}};
  for (const Target& target : targets)
    cases.add({.op = "sum_to",
               .name = concat(target.from, " to ", target.to),
               .inputs = {{.sizes = target.from}},
               .run = [target](In x) { return one(sum_to(x[0], target.to)); },
               .reference =
                   [target](Arrays x) {
                     Array result = reduced(x[0], target.dim, false, total);
                     result.sizes = target.to;
                     return one(result);
                   },
               .dtypes = floating_dtypes()});
  cases.error("sum_to", "not a broadcast", "does not broadcast", [] { sum_to(ones({2, 3}), {2}); });
}

}  // namespace

void sum_cases(Cases& cases) {
  sums(cases);
  means(cases);
  casts(cases);
  nan_sums(cases);
  counts(cases);
  sums_to_shape(cases);
  cases.add({.op = "sum",
             .name = "16 Mi floats",
             .inputs = {{.sizes = {4096, 4096}}},
             .run = [](In x) { return one(sum(x[0])); },
             .dtypes = {kFloat32},
             .big = true});
  for (const int64_t dim : {0, 1})
    cases.add({.op = "sum",
               .name = concat("16 Mi floats over dim ", dim),
               .inputs = {{.sizes = {4096, 4096}}},
               .run = [dim](In x) { return one(sum(x[0], dim)); },
               .dtypes = {kFloat32},
               .big = true});
}

}  // namespace tensora::suite
