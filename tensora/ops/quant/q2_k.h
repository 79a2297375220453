#pragma once

// GGUF's Q2_K, for kernels on host and device: blocks of 256 numbers in groups of 16 with
// scales and offsets of their own, x = scale * group_scale * q - low * group_low.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"
#include "tensora/ops/quant/group_codes.h"

namespace tensora {

struct BlockQ2_K {
  static constexpr DType kDType = DType::q2_k;
  static constexpr int kNumbers = 256;
  static constexpr int kGroup = 16;
  uint8_t scales[16];  // of a group: the scale in the low half, the offset in the high one
  uint8_t q[64];       // per 128 numbers, 32 bytes with four planes of 2 bits
  Half scale, low;

  TENSORA_HD int level(int i) const { return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }
  TENSORA_HD float number(int i) const {
    const int group = scales[i / kGroup];
    return static_cast<float>(scale) * static_cast<float>(group & 15) *
               static_cast<float>(level(i)) -
           static_cast<float>(low) * static_cast<float>(group >> 4);
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const auto code = blocks::encode_affine_groups<kNumbers, kGroup>(x, 3.0f, 15.0f);
    scale = code.scale;
    low = code.low;
    for (int j = 0; j < 16; ++j)
      scales[j] = static_cast<uint8_t>(code.scales[j] | code.lows[j] << 4);
    for (int i = 0; i < 64; ++i) {
      const uint8_t* plane = code.levels + i / 32 * 128 + i % 32;
      q[i] = static_cast<uint8_t>(plane[0] | plane[32] << 2 | plane[64] << 4 | plane[96] << 6);
    }
  }
};
static_assert(sizeof(BlockQ2_K) == dtype_info(DType::q2_k).block_bytes &&
              BlockQ2_K::kNumbers == dtype_info(DType::q2_k).block_numbers);

}  // namespace tensora
