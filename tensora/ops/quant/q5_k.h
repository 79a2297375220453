#pragma once

// GGUF's Q5_K, for kernels on host and device: blocks of 256 numbers in groups of 32 with
// scales and offsets of their own, x = scale * group_scale * q - low * group_low.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"
#include "tensora/ops/quant/group_codes.h"
#include "tensora/ops/quant/six_bit_scales.h"

namespace tensora {

struct BlockQ5_K {
  static constexpr DType kDType = DType::q5_k;
  static constexpr int kNumbers = 256;
  static constexpr int kGroup = 32;
  Half scale, low;
  SixBitScales scales;
  uint8_t high[32];  // bit i / 32 of byte i % 32 is the fifth of number i
  uint8_t q[128];    // the other four, as in Q4_K

  TENSORA_HD int level(int i) const {
    const int low_bits = q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
    return low_bits | (high[i % 32] >> (i / 32) & 1) << 4;
  }
  TENSORA_HD float number(int i) const {
    const int group = i / kGroup;
    return static_cast<float>(scale) * static_cast<float>(scales.scale(group)) *
               static_cast<float>(level(i)) -
           static_cast<float>(low) * static_cast<float>(scales.low(group));
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const auto code = blocks::encode_affine_groups<kNumbers, kGroup>(x, 31.0f, 63.0f);
    scale = code.scale;
    low = code.low;
    scales.set(code.scales, code.lows);
    for (int i = 0; i < 128; ++i) {
      const uint8_t* levels = code.levels + i / 32 * 64 + i % 32;
      q[i] = static_cast<uint8_t>((levels[0] & 15) | (levels[32] & 15) << 4);
    }
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int k = 0; k < 8; ++k) bits |= code.levels[i + 32 * k] >> 4 << k;
      high[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(BlockQ5_K) == dtype_info(DType::q5_k).block_bytes &&
              BlockQ5_K::kNumbers == dtype_info(DType::q5_k).block_numbers);

}  // namespace tensora
