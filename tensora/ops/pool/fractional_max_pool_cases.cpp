#include "tensora/ops/pool/fractional_max_pool.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

int64_t start_of(double sample, int64_t i, int64_t in, int64_t out, int64_t kernel) {
  if (i == out - 1) return in - kernel;
  const double step = static_cast<double>(in - kernel) / static_cast<double>(out - 1);
  return static_cast<int64_t>((static_cast<double>(i) + sample) * step) -
         static_cast<int64_t>(sample * step);
}

// [N, C, H, W] with windows of 2 x 3.
ArrayList pooled(Arrays x, int64_t rows, int64_t columns) {
  const Array &image = x[0], &samples = x[1];
  const int64_t planes = image.sizes[0] * image.sizes[1], H = image.sizes[2], W = image.sizes[3];
  const Shape sizes{image.sizes[0], image.sizes[1], rows, columns};
  Array values(sizes), indices(sizes);
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t top = start_of(samples[p * 2 + 1], i, H, rows, 2);
        const int64_t left = start_of(samples[p * 2], j, W, columns, 3);
        int64_t best = top * W + left;
        for (int64_t k = 0; k < 6; ++k) {
          const int64_t at = (top + k / 3) * W + left + k % 3;
          if (image[p * H * W + at] > image[p * H * W + best]) best = at;
        }
        values[(p * rows + i) * columns + j] = image[p * H * W + best];
        indices[(p * rows + i) * columns + j] = static_cast<double>(best);
      }
  return {values, indices};
}

}  // namespace

void fractional_max_pool_cases(Cases& cases) {
  for (const Shape& out : {Shape{4, 5}, Shape{1, 2}})
    cases.add({.op = "fractional_max_pool2d",
               .name = concat(out),
               .inputs = {{{2, 3, 9, 11}}, {.sizes = {2, 3, 2}, .low = 0, .high = 1}},
               .run =
                   [=](In x) {
                     const auto [values, indices] =
                         fractional_max_pool2d(x[0], {2, 3}, out, x[1].detach());
                     return Out{values, indices};
                   },
               .reference = [=](Arrays x) { return pooled(x, out[0], out[1]); },
               .dtypes = {kFloat64},
               .grad_inputs = std::vector<int>{0},
               .output_dtypes = {{}, kInt64}});
  cases.add(
      {.op = "fractional_max_pool3d",
       .name = "whole windows",
       .inputs = {{{2, 2, 2, 2}}, {.sizes = {1, 2, 3}, .low = 0, .high = 1}},
       .run =
           [](In x) { return one(std::get<0>(fractional_max_pool3d(x[0], 2, 1, x[1].detach()))); },
       .reference =
           [](Arrays x) {
             Array out(Shape{2, 1, 1, 1}, -HUGE_VAL);
             for (int64_t i = 0; i < 16; ++i) out[i / 8] = std::max(out[i / 8], x[0][i]);
             return one(out);
           },
       .grad_inputs = std::vector<int>{0}});
  cases.error("fractional_max_pool2d", "output too large", "too large relative to input size 3",
              [] {
                fractional_max_pool2d(ones({1, 3, 3}), 2, 3, rand({1, 1, 2}));
              });
  cases.error("fractional_max_pool2d", "samples", "expected _random_samples of shape [1, 1, 2]",
              [] {
                fractional_max_pool2d(ones({1, 3, 3}), 2, 2, rand({1, 2}));
              });
}

}  // namespace tensora::suite
