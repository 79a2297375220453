#include "tensora/ops/nn/gated.h"

#include <cmath>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

ArrayList gated(Arrays x, int64_t dim, const std::function<double(double, double)>& formula) {
  Shape sizes = x[0].sizes;
  const int at = static_cast<int>(dim < 0 ? dim + sizes.size() : dim);
  sizes[at] /= 2;
  Array out(sizes);
  Array::each(sizes, [&](const Shape& index) {
    Shape other = index;
    other[at] += sizes[at];
    out.at(index) = formula(x[0].at(index), x[0].at(other));
  });
  return one(out);
}

void add_halves(Cases& cases) {
  const std::pair<Shape, int64_t> samples[] = {
      {{3, 8}, -1}, {{4, 5}, 0}, {{2, 6, 3}, 1}, {{0, 4}, 1}, {{5, 1200}, 1}};
  for (const auto& [sizes, dim] : samples)
    for (const bool silu : {false, true})
      cases.add({.op = silu ? "swiglu" : "glu",
                 .name = concat(sizes, " along ", dim),
                 .inputs = {{sizes}},
                 .run = [silu, dim = dim](
                            In x) { return one(silu ? swiglu(x[0], dim) : glu(x[0], dim)); },
                 .reference =
                     [silu, dim = dim](Arrays x) {
                       return gated(x, dim, [silu](double a, double b) {
                         return silu ? a * sigmoid_of(a) * b : a * sigmoid_of(b);
                       });
                     },
                 .tolerance = 4});
}

void add_pairs(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 4}, Shape{}, Shape{1037, 2}})
    cases.add({.op = "swiglu",
               .name = concat("two tensors ", sizes),
               .inputs = {{sizes}, {sizes}},
               .run = [](In x) { return one(swiglu(x[0], x[1])); },
               .reference =
                   [](Arrays x) {
                     return map_elements(
                         x, [](const double* v) { return v[0] * sigmoid_of(v[0]) * v[1]; });
                   },
               .tolerance = 4});
}

void add_slopes(Cases& cases) {
  const std::pair<Shape, Shape> samples[] = {
      {{3, 4}, {1}}, {{3, 4}, {}}, {{2, 3, 5}, {3}}, {{4, 3}, {3}}, {{}, {1}}};
  for (const auto& [sizes, weights] : samples)
    cases.add({.op = "prelu",
               .name = concat(sizes, " with ", weights),
               .inputs = {{sizes}, {weights}},
               .run = [](In x) { return one(prelu(x[0], x[1])); },
               .reference =
                   [](Arrays x) {
                     Array out = x[0];
                     const int64_t channels = x[1].numel();
                     int64_t inner = 1;
                     for (int d = 2; d < out.sizes.size(); ++d) inner *= out.sizes[d];
                     for (int64_t i = 0; i < out.numel(); ++i)
                       if (out[i] <= 0) out[i] *= x[1][channels == 1 ? 0 : i / inner % channels];
                     return one(out);
                   }});
}

}  // namespace

void gated_cases(Cases& cases) {
  add_halves(cases);
  add_pairs(cases);
  add_slopes(cases);
  cases.error("glu", "odd size", "glu: dim 1 must have an even size", [] { glu(zeros({2, 3})); });
  cases.error("glu", "integers", "expected floating-point inputs", [] {
    glu(zeros({2, 4}, {.dtype = kInt64}));
  });
  cases.error("swiglu", "shapes", "inputs of one shape and dtype", [] {
    swiglu(zeros({2, 4}), zeros({2, 3}));
  });
  cases.error("prelu", "channels", "one for each of 3 channels", [] {
    prelu(zeros({2, 3}), zeros({2}));
  });
}

}  // namespace tensora::suite
