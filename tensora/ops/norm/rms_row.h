#pragma once

// Internal header: the root-mean-square norm of one row on the CPU.

#include <cmath>
#include <cstdint>

namespace tensora::cpu::TENSORA_ISA {

/// to = from / sqrt(mean(from²) + eps) * weight; `to` may be `from`. residual_rms_norm and the
/// products that normalise their input both call it, so a token has the same bits whichever of them
/// a batch takes. The sums lie in 16 lanes on every instruction set.
inline void rms_row(const float* from, const float* weight, int64_t width, double eps, float* to) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) sums[k] += from[i + k] * from[i + k];
  for (int64_t k = 0; i < width; ++i, ++k) sums[k] += from[i] * from[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  const auto factor = static_cast<float>(
      1 / std::sqrt(static_cast<double>(sums[0]) / static_cast<double>(width) + eps));
  for (i = 0; i < width; ++i) to[i] = from[i] * factor * weight[i];
}

}  // namespace tensora::cpu::TENSORA_ISA
