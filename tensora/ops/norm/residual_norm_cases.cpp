#include "tensora/ops/norm/residual_norm.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// The sums, and their rows over the root of their mean square, times the factors.
ArrayList normalised(Arrays in, bool adds, double eps, double offset) {
  Array sum = in[0], out = in[0];
  const int64_t size = in[1].numel();
  for (int64_t i = 0; adds && i < sum.numel(); ++i) sum[i] += in[2][i];
  for (int64_t r = 0; r < sum.numel() / size; ++r) {
    double square = 0;
    for (int64_t i = 0; i < size; ++i) square += sum[r * size + i] * sum[r * size + i];
    const double factor = 1 / std::sqrt(square / static_cast<double>(size) + eps);
    for (int64_t i = 0; i < size; ++i)
      out[r * size + i] = sum[r * size + i] * factor * (in[1][i] + offset);
  }
  return adds ? ArrayList{out, sum} : ArrayList{out};
}

}  // namespace

void residual_norm_cases(Cases& cases) {
  const std::map<Mode, std::string> flat = {{Mode::grad, "inference ops have no gradient"}};
  for (bool adds : {false, true})
    for (bool unit_offset : {false, true})
      cases.add({.op = "residual_norm",
                 .name = concat(adds ? "with" : "without", " a residual",
                                unit_offset ? ", factors from 1" : ""),
                 .inputs = {{{3, 2, 37}, -3, 3, kFloat32}, {{37}}, {{3, 2, 37}}},
                 .run =
                     [=](In x) {
                       const auto [rows, sum] =
                           residual_rms_norm(x[0], x[1],
                                             {.residual = adds ? x[2] : Tensor(),
                                              .eps = 1e-5,
                                              .dtype = suite::dtype(),
                                              .unit_offset = unit_offset});
                       return adds ? Out{rows, sum} : Out{rows};
                     },
                 .reference = [=](Arrays x) { return normalised(x, adds, 1e-5, unit_offset); },
                 .dtypes = {kFloat32, kFloat16, kBFloat16},
                 .tolerance = 4,
                 .opt_out = flat,
                 .output_dtypes = {{}, kFloat32}});
  const auto make = [](const Shape& sizes) { return zeros(sizes, {.device = device()}); };
  cases.error("residual_norm", "weight", "weight must have shape [4], got [3]", [=] {
    residual_rms_norm(make({2, 4}), make({3}));
  });
  cases.error("residual_norm", "residual", "residual must have shape [2, 4], got [4]", [=] {
    residual_rms_norm(make({2, 4}), make({4}), {.residual = make({4})});
  });
  cases.error("residual_norm", "dtype", "the result can be float32, float16 or bfloat16, not int8",
              [=] {
                residual_rms_norm(make({2, 4}), make({4}), {.dtype = kInt8});
              });
}

}  // namespace tensora::suite
