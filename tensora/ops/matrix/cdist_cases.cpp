#include "tensora/ops/matrix/cdist.h"

#include <cmath>
#include <limits>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array distances_of(const Array& x1, const Array& x2, double p) {
  const int last = x1.sizes.size() - 1;
  const int64_t rows = x1.sizes[last - 1], columns = x2.sizes[last - 1], length = x1.sizes[last];
  Shape sizes = x1.sizes;
  sizes[last] = columns;
  Array out(sizes);
  for (int64_t at = 0; at < out.numel(); ++at) {
    const int64_t j = at % columns, i = at / columns % rows, batch = at / (columns * rows);
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) {
      const double size =
          std::abs(x1[(batch * rows + i) * length + k] - x2[(batch * columns + j) * length + k]);
      sum = std::isinf(p) ? std::max(sum, size) : sum + (p == 0 ? size != 0 : std::pow(size, p));
    }
    out[at] = p == 0 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
  }
  return out;
}

void add(Cases& cases, const std::string& op, const std::string& name, const Shape& a,
         const Shape& b, double p, const std::string& mode, double tolerance, bool large) {
  cases.add({.op = op,
             .name = name,
             .inputs = {{.sizes = a, .low = -1, .high = 1}, {.sizes = b, .low = -1, .high = 1}},
             .run = [=](In x) { return one(cdist(x[0], x[1], p, mode)); },
             .reference = [=](Arrays x) { return one(distances_of(x[0], x[1], p)); },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = tolerance,
             .opt_out = large ? std::map<Mode, std::string>{{Mode::grad, "too many elements"}}
                              : std::map<Mode, std::string>{}});
}

void add_pdist(Cases& cases) {
  cases.add({.op = "cdist",
             .name = "pdist",
             .inputs = {{.sizes = {4, 3}, .low = -1, .high = 1}},
             .run = [](In x) { return one(pdist(x[0], 3)); },
             .reference =
                 [](Arrays x) {
                   const Array all = distances_of(x[0], x[0], 3);
                   Array out({6});
                   int64_t at = 0;
                   for (int64_t i = 0; i < 4; ++i)
                     for (int64_t j = i + 1; j < 4; ++j) out[at++] = all[i * 4 + j];
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 20});
  cases.error("cdist", "pdist of a batch", "pdist: expected a matrix, got shape [2, 2, 2]", [] {
    pdist(ones({2, 2, 2}));
  });
  cases.error("cdist", "pdist of negative p", "pdist: p must not be negative", [] {
    pdist(ones({2, 2}), -1);
  });
}

}  // namespace

void cdist_cases(Cases& cases) {
  const std::string direct = "donot_use_mm_for_euclid_dist", product = "use_mm_for_euclid_dist",
                    automatic = "use_mm_for_euclid_dist_if_necessary";
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInfinity}) {
    add(cases, "cdist", concat("p ", p), {3, 4}, {2, 4}, p, automatic, 20, false);
    add(cases, "cdist", concat("p ", p, ", a batch"), {2, 3, 35}, {2, 5, 35}, p, direct, 40, true);
    // The gradient, once more as an op of its own.
    cases.add({.op = "cdist_backward",
               .name = concat("p ", p),
               .inputs = {{{3, 2}}, {{3, 4}}, {{2, 4}}},
               .run =
                   [=](In x) {
                     const Tensor points = x[1].detach().requires_grad_();
                     cdist(points, x[2].detach(), p).backward(x[0].detach());
                     return one(points.grad());
                   },
               .reference =
                   [=](Arrays x) {
                     Array out = x[1];
                     const Array apart = distances_of(x[1], x[2], p);
                     for (int64_t at = 0; at < out.numel(); ++at) {
                       const int64_t i = at / 4, k = at % 4;
                       out[at] = 0;
                       for (int64_t j = 0; j < 2; ++j) {
                         const double d = x[1][at] - x[2][j * 4 + k], r = apart[i * 2 + j];
                         const double slope = p == 0          ? 0
                                              : std::isinf(p) ? (std::abs(d) == r ? 1 : 0)
                                                              : std::pow(std::abs(d) / r, p - 1);
                         out[at] += x[0][i * 2 + j] * (d < 0 ? -slope : slope);
                       }
                     }
                     return one(out);
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 100,
               .opt_out = {{Mode::grad, "a gradient itself; that of cdist has second order"},
                           {Mode::jit, "runs backward"},
                           {Mode::meta, "runs backward"}}});
  }
  add(cases, "euclidean_distance", "small", {3, 4}, {2, 4}, 2, product, 100, false);
  add(cases, "euclidean_distance", "a batch", {2, 30, 5}, {2, 4, 5}, 2, automatic, 100, true);
  add(cases, "cdist", "no points", {0, 4}, {2, 4}, 2, automatic, 1, false);
  add(cases, "cdist", "no coordinates", {3, 0}, {2, 0}, 2, automatic, 1, false);
  add_pdist(cases);
  cases.error("cdist", "columns", "must have the same number of columns. x1: 3 x2: 4", [] {
    cdist(ones({2, 3}), ones({2, 4}));
  });
  cases.error("cdist", "negative p", "only supports non-negative p values", [] {
    cdist(ones({2, 3}), ones({2, 3}), -1);
  });
  cases.error("cdist", "integers", "expected points of float32 or float64", [] {
    cdist(ones({2, 3}, {.dtype = kInt64}), ones({2, 3}, {.dtype = kInt64}));
  });
  cases.error("cdist", "mode", "is not a valid value for compute_mode", [] {
    cdist(ones({2, 3}), ones({2, 3}), 2, "fast");
  });
}

}  // namespace tensora::suite
