#include "tensora/ops/norm/batch_norm.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

int64_t inner_size(const Shape& sizes) {
  int64_t inner = 1;
  for (int d = 2; d < sizes.size(); ++d) inner *= sizes[d];
  return inner;
}

struct Moments {
  double mean = 0, variance = 0, count = 0;
};

// Of channel c of samples [first, last).
Moments moments_of(const Array& x, int64_t c, int64_t first, int64_t last) {
  const int64_t channels = x.sizes[1], inner = inner_size(x.sizes);
  Moments result;
  result.count = double((last - first) * inner);
  const auto each = [&](auto body) {
    for (int64_t n = first; n < last; ++n)
      for (int64_t i = 0; i < inner; ++i) body(x[(n * channels + c) * inner + i]);
  };
  each([&](double value) { result.mean += value / result.count; });
  each([&](double value) {
    result.variance += (value - result.mean) * (value - result.mean) / result.count;
  });
  return result;
}

template <class Statistics>
Array normalised(const Array& x, double eps, const Array& weight, const Array& bias,
                 Statistics&& statistics) {
  Array out(x.sizes);
  const int64_t channels = x.sizes[1], inner = inner_size(x.sizes);
  for (int64_t n = 0; n < x.sizes[0]; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      const Moments moments = statistics(n, c);
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t at = (n * channels + c) * inner + i;
        out[at] = (x[at] - moments.mean) / std::sqrt(moments.variance + eps) *
                      (weight.sizes.empty() ? 1 : weight[c]) +
                  (bias.sizes.empty() ? 0 : bias[c]);
      }
    }
  return out;
}

Array batch_normalised(const Array& x, double eps, const Array& weight, const Array& bias) {
  return normalised(x, eps, weight, bias,
                    [&](int64_t, int64_t c) { return moments_of(x, c, 0, x.sizes[0]); });
}

Tensor channels_last(const Tensor& x) {
  Dims there = {0}, back = {0, x.dim() - 1};
  for (int d = 2; d < x.dim(); ++d) there.push_back(d), back.push_back(d - 1);
  there.push_back(1);
  return contiguous(x.permute(there)).permute(back);
}

void add_training(Cases& cases) {
  for (const Shape& sizes : {Shape{4, 3}, Shape{2, 3, 5}, Shape{2, 5, 3, 4}, Shape{2, 3, 2, 2, 2},
                             Shape{3, 1, 7}, Shape{9, 17, 40}, Shape{40, 16, 8, 8}, Shape{0, 3, 5}})
    for (const bool last : {false, true}) {
      const int64_t channels = sizes[1];
      cases.add(
          {.op = "batch_norm",
           .name = concat("training ", sizes, last ? " channels last" : ""),
           .inputs = {{sizes}, {{channels}}, {{channels}}},
           .run =
               [last](In x) {
                 return one(batch_norm(last ? channels_last(x[0]) : x[0], {}, {}, x[1], x[2], true,
                                       0.1, 1e-3));
               },
           .reference = [](Arrays x) { return one(batch_normalised(x[0], 1e-3, x[1], x[2])); },
           .tolerance = 6});
      cases.add({.op = "batch_norm",
                 .name = concat("evaluation ", sizes, last ? " channels last" : ""),
                 .inputs = {{sizes},
                            {{channels}, -3, 3, kFloat32},
                            {{channels}, 0.5, 2, kFloat32},
                            {{channels}},
                            {{channels}}},
                 .run =
                     [last](In x) {
                       return one(batch_norm(last ? channels_last(x[0]) : x[0], x[1], x[2], x[3],
                                             x[4], false, 0.1, 1e-3));
                     },
                 .reference =
                     [](Arrays x) {
                       return one(normalised(x[0], 1e-3, x[3], x[4], [&](int64_t, int64_t c) {
                         return Moments{x[1][c], x[2][c], 1};
                       }));
                     },
                 .tolerance = 6});
    }
}

void add_running(Cases& cases) {
  cases.add({.op = "batch_norm",
             .name = "running statistics",
             .inputs = {{{4, 3, 5}}, {{3}}, {{3}, 0.5, 2}},
             .run =
                 [](In x) {
                   const Tensor mean = clone(x[1]).detach(), variance = clone(x[2]).detach();
                   const Tensor y = batch_norm(x[0], mean, variance, {}, {}, true, 0.3, 1e-3);
                   return Out{y, mean, variance};
                 },
             .reference =
                 [](Arrays x) {
                   Array mean = x[1], variance = x[2];
                   for (int64_t c = 0; c < 3; ++c) {
                     const Moments moments = moments_of(x[0], c, 0, 4);
                     mean[c] += 0.3 * (moments.mean - mean[c]);
                     variance[c] += 0.3 * (moments.variance * 20 / 19 - variance[c]);
                   }
                   return ArrayList{batch_normalised(x[0], 1e-3, {}, {}), mean, variance};
                 },
             .tolerance = 6,
             .opt_out = {{Mode::grad, "the running statistics are not differentiated"}}});
  cases.add({.op = "batch_norm",
             .name = "float32 parameters",
             .inputs = {{{4, 3, 5}}, {{3}, -3, 3, kFloat32}, {{3}, -3, 3, kFloat32}},
             .run = [](In x) { return one(batch_norm(x[0], {}, {}, x[1], x[2], true)); },
             .reference = [](Arrays x) { return one(batch_normalised(x[0], 1e-5, x[1], x[2])); },
             .tolerance = 6});
  cases.add({.op = "batch_norm",
             .name = "large",
             .inputs = {{{64, 64, 28, 28}}, {{64}}, {{64}}},
             .run = [](In x) { return one(batch_norm(x[0], {}, {}, x[1], x[2], true)); },
             .dtypes = {kFloat32, kBFloat16},
             .big = true});
}

void add_instance_norm(Cases& cases) {
  for (const Shape& sizes : {Shape{2, 3, 5}, Shape{3, 2, 4, 3}, Shape{0, 3, 4}})
    cases.add({.op = "instance_norm",
               .name = concat(sizes),
               .inputs = {{sizes}, {{sizes[1]}}, {{sizes[1]}}},
               .run = [](In x) { return one(instance_norm(x[0], {}, {}, x[1], x[2])); },
               .reference =
                   [](Arrays x) {
                     return one(normalised(x[0], 1e-5, x[1], x[2], [&](int64_t n, int64_t c) {
                       return moments_of(x[0], c, n, n + 1);
                     }));
                   },
               .tolerance = 6});
  cases.add({.op = "instance_norm",
             .name = "running statistics",
             .inputs = {{{4, 3, 5}}, {{3}}, {{3}, 0.5, 2}},
             .run =
                 [](In x) {
                   const Tensor mean = clone(x[1]).detach(), variance = clone(x[2]).detach();
                   instance_norm(x[0].detach(), mean, variance, {}, {}, true, 0.3);
                   return Out{instance_norm(x[0], mean, variance, {}, {}, false), mean, variance};
                 },
             .reference =
                 [](Arrays x) {
                   Array mean = x[1], variance = x[2];
                   for (int64_t c = 0; c < 3; ++c) {
                     mean[c] *= 0.7, variance[c] *= 0.7;
                     for (int64_t n = 0; n < 4; ++n) {
                       const Moments moments = moments_of(x[0], c, n, n + 1);
                       mean[c] += 0.3 * moments.mean / 4;
                       variance[c] += 0.3 * moments.variance * 5 / 4 / 4;
                     }
                   }
                   const Array y = normalised(x[0], 1e-5, {}, {}, [&](int64_t, int64_t c) {
                     return Moments{mean[c], variance[c], 1};
                   });
                   return ArrayList{y, mean, variance};
                 },
             .tolerance = 6,
             .opt_out = {{Mode::grad, "the running statistics are not differentiated"}}});
}

}  // namespace

void batch_norm_cases(Cases& cases) {
  add_training(cases);
  add_running(cases);
  add_instance_norm(cases);
  cases.error("batch_norm", "one value per channel", "more than 1 value per channel", [] {
    batch_norm(zeros({1, 3}), {}, {}, {}, {}, true);
  });
  cases.error("batch_norm", "eps in training", "eps must be positive in training, got 0", [] {
    batch_norm(zeros({2, 3}), {}, {}, {}, {}, true, 0.1, 0);
  });
  cases.error("batch_norm", "negative eps", "eps must not be negative, got -1", [] {
    batch_norm(zeros({2, 3}), zeros({3}), ones({3}), {}, {}, false, 0.1, -1);
  });
  cases.error("batch_norm", "a vector", "at least two dims",
              [] { batch_norm(zeros({3}), {}, {}, {}, {}, true); });
  cases.error("batch_norm", "no statistics", "must be given unless training", [] {
    batch_norm(zeros({4, 3}), {}, {});
  });
  cases.error("batch_norm", "half of the statistics", "given together", [] {
    batch_norm(zeros({4, 3}), zeros({3}), {});
  });
  cases.error("batch_norm", "statistics of another shape", "running_mean must have shape [3]", [] {
    batch_norm(zeros({4, 3}), zeros({2}), zeros({2}));
  });
  cases.error("batch_norm", "weight of another shape", "weight must have shape [3]", [] {
    batch_norm(zeros({4, 3}), {}, {}, zeros({4}), {}, true);
  });
  cases.error("batch_norm", "integers", "floating-point", [] {
    batch_norm(zeros({4, 3}, {.dtype = kInt64}), {}, {}, {}, {}, true);
  });
  cases.error("instance_norm", "one value per channel", "more than 1 spatial element", [] {
    instance_norm(zeros({2, 3, 1}));
  });
}

}  // namespace tensora::suite
