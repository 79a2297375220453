#pragma once

// GGUF's Q4_0, for kernels on host and device: blocks of 32 numbers, x = scale * (q - 8).

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"

namespace tensora {

struct BlockQ4_0 {
  static constexpr DType kDType = DType::q4_0;
  static constexpr int kNumbers = 32;
  Half scale;
  uint8_t q[16];  // numbers 0 to 15 in the low halves, 16 to 31 in the high ones

  TENSORA_HD int level(int i) const { return (i < 16 ? q[i] & 15 : q[i - 16] >> 4) - 8; }
  TENSORA_HD float number(int i) const {
    return static_cast<float>(scale) * static_cast<float>(level(i));
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const float step = blocks::extreme_of<kNumbers>(x) / -8.0f;
    const float inverse = blocks::inverse_or_zero(step);
    scale = Half(step);
    const auto rounded = [&](int i) {
      return static_cast<int>(blocks::clamped(x[i] * inverse + 8.5f, 0.0f, 15.0f));
    };
    for (int i = 0; i < 16; ++i) q[i] = static_cast<uint8_t>(rounded(i) | rounded(i + 16) << 4);
  }
};
static_assert(sizeof(BlockQ4_0) == dtype_info(DType::q4_0).block_bytes &&
              BlockQ4_0::kNumbers == dtype_info(DType::q4_0).block_numbers);

}  // namespace tensora
