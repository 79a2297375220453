#pragma once

// GGUF's Q8_0, for kernels on host and device: blocks of 32 numbers, x = scale * q.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"

namespace tensora {

struct BlockQ8_0 {
  static constexpr DType kDType = DType::q8_0;
  static constexpr int kNumbers = 32;
  Half scale;
  int8_t q[kNumbers];

  TENSORA_HD float number(int i) const {
    return static_cast<float>(scale) * static_cast<float>(q[i]);
  }

  /// The scale that maps the largest magnitude to 127. Where a number is not finite the block has
  /// no scale, and all of it becomes NaN.
  TENSORA_HD static float scale_of(float largest) { return largest / 127.0f; }
  TENSORA_HD static int8_t rounded(float x, float scale) {
    // No scale, and so no number but 0, where all are 0 (or as good as) or one is not finite.
    const float inverse = 1.0f / scale;
    const float scaled = inverse > 0 && math::isfinite(inverse) ? x * inverse : 0.0f;
    // To the nearest integer, halves away from zero.
    const float whole = math::trunc(scaled), rest = scaled - whole;
    return static_cast<int8_t>(whole + static_cast<float>(rest >= 0.5f) -
                               static_cast<float>(rest <= -0.5f));
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const float step = scale_of(math::abs(blocks::extreme_of<kNumbers>(x)));
    scale = Half(step);
    for (int i = 0; i < kNumbers; ++i) q[i] = rounded(x[i], step);
  }
};
static_assert(sizeof(BlockQ8_0) == dtype_info(DType::q8_0).block_bytes &&
              BlockQ8_0::kNumbers == dtype_info(DType::q8_0).block_numbers);

}  // namespace tensora
