#include "tensora/ops/norm/distance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

double p_norm(const std::vector<double>& values, double p) {
  double sum = 0;
  for (double value : values)
    sum = p == inf ? std::max(sum, std::abs(value)) : sum + std::pow(std::abs(value), p);
  return p == inf ? sum : std::pow(sum, 1 / p);
}

// The rows of a matrix.
std::vector<double> row(const Array& x, int64_t i) {
  const int64_t n = x.sizes.back();
  return {x.values.begin() + i * n, x.values.begin() + (i + 1) * n};
}

void add_normalize(Cases& cases) {
  for (const double p : {1., 2., 3., inf})
    cases.add({.op = "normalize",
               .name = concat("p ", p),
               .inputs = {{{4, 7}}},
               .run = [p](In x) { return one(normalize(x[0], p)); },
               .reference =
                   [p](Arrays x) {
                     Array out = x[0];
                     for (int64_t i = 0; i < out.numel(); ++i)
                       out[i] /= std::max(p_norm(row(x[0], i / 7), p), 1e-12);
                     return one(out);
                   },
               .tolerance = 4});
  cases.add({.op = "normalize",
             .name = "zeros, along dim 0",
             .inputs = {{.sizes = {2, 3}, .values = {0, 3, -1, 0, 4, 0}}},
             .run = [](In x) { return one(normalize(x[0], 2, 0)); },
             .reference =
                 [](Arrays) {
                   Array out(Shape{2, 3});
                   out.values = {0, 0.6, -1, 0, 0.8, 0};
                   return one(out);
                 },
             .dtypes = {kBFloat16, kFloat32, kFloat64},  // 1e-12 is 0 in float16
             .opt_out = {{Mode::grad, "not differentiable at zero"}}});
  cases.error("normalize", "integers", "floating-point", [] {
    normalize(zeros({2, 2}, {.dtype = kInt64}));
  });
  cases.error("normalize", "dim out of range", "normalize", [] { normalize(zeros({2})); });
}

void add_distances(Cases& cases) {
  cases.add({.op = "cosine_similarity",
             .name = "rows",
             .inputs = {{{4, 7}}, {{4, 7}}},
             .run = [](In x) { return one(cosine_similarity(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{4});
                   for (int64_t i = 0; i < 4; ++i) {
                     const auto a = row(x[0], i), b = row(x[1], i);
                     for (size_t j = 0; j < 7; ++j)
                       out[i] += a[j] / p_norm(a, 2) * b[j] / p_norm(b, 2);
                   }
                   return one(out);
                 },
             .tolerance = 4});
  cases.add({.op = "cosine_similarity",
             .name = "broadcast, along the first dim",
             .inputs = {{{5}, 1, 2}, {{3, 5}, 1, 2}},
             .run = [](In x) { return one(cosine_similarity(x[0], x[1], 0)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{5});
                   for (int64_t j = 0; j < 5; ++j) {
                     double dot = 0, a = 0, b = 0;
                     for (int64_t i = 0; i < 3; ++i) {
                       dot += x[0][j] * x[1][5 * i + j];
                       a += x[0][j] * x[0][j];
                       b += x[1][5 * i + j] * x[1][5 * i + j];
                     }
                     out[j] = dot / std::sqrt(a * b);
                   }
                   return one(out);
                 },
             .tolerance = 4});
  for (const bool keepdim : {false, true})
    cases.add({.op = "pairwise_distance",
               .name = keepdim ? "keepdim, p 1" : "p 2",
               .inputs = {{{4, 7}}, {{4, 7}}},
               .run =
                   [keepdim](In x) {
                     return one(pairwise_distance(x[0], x[1], keepdim ? 1 : 2, 1e-6, keepdim));
                   },
               .reference =
                   [keepdim](Arrays x) {
                     Array out(keepdim ? Shape{4, 1} : Shape{4});
                     for (int64_t i = 0; i < 4; ++i) {
                       auto a = row(x[0], i);
                       for (size_t j = 0; j < 7; ++j) a[j] += 1e-6 - row(x[1], i)[j];
                       out[i] = p_norm(a, keepdim ? 1 : 2);
                     }
                     return one(out);
                   },
               .tolerance = 4});
  cases.error("cosine_similarity", "integers", "floating-point", [] {
    cosine_similarity(zeros({2, 2}, {.dtype = kInt64}), zeros({2, 2}, {.dtype = kInt64}));
  });
  cases.error("pairwise_distance", "shapes that do not meet", "broadcast", [] {
    pairwise_distance(zeros({2, 2}), zeros({2, 3}));
  });
}

void add_local_response(Cases& cases) {
  for (const Shape& sizes : {Shape{2, 5, 3}, Shape{2, 4, 3, 2}, Shape{0, 3, 2}})
    for (const int64_t size : {1, 2, 3})
      cases.add({.op = "local_response_norm",
                 .name = concat(sizes, " size ", size),
                 .inputs = {{sizes}},
                 .run = [size](In x) { return one(local_response_norm(x[0], size, 0.5, 0.75, 2)); },
                 .reference =
                     [size](Arrays x) {
                       Array out = x[0];
                       const int64_t channels = out.sizes[1];
                       const int64_t inner =
                           out.numel() / std::max<int64_t>(1, channels * out.sizes[0]);
                       for (int64_t i = 0; i < out.numel(); ++i) {
                         const int64_t c = i / inner % channels;
                         double sum = 0;
                         for (int64_t d = c - size / 2; d <= c + (size - 1) / 2; ++d)
                           if (d >= 0 && d < channels)
                             sum += std::pow(x[0][i + (d - c) * inner], 2);
                         out[i] /= std::pow(2 + 0.5 * sum / double(size), 0.75);
                       }
                       return one(out);
                     },
                 .tolerance = 4});
  cases.error("local_response_norm", "a matrix", "at least three dims", [] {
    local_response_norm(zeros({2, 3}), 2);
  });
}

}  // namespace

void norm_distance_cases(Cases& cases) {
  add_normalize(cases);
  add_distances(cases);
  add_local_response(cases);
}

}  // namespace tensora::suite
