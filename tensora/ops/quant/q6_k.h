#pragma once

// GGUF's Q6_K, for kernels on host and device: blocks of 256 numbers in groups of 16 with
// scales of their own, x = scale * group_scale * q, q from -32 to 31.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"
#include "tensora/ops/quant/group_codes.h"

namespace tensora {

struct BlockQ6_K {
  static constexpr DType kDType = DType::q6_k;
  static constexpr int kNumbers = 256;
  static constexpr int kGroup = 16;
  uint8_t q[128];    // four bits; per 128 numbers, 64 bytes: the first 64 in the low halves
  uint8_t high[64];  // two bits; per 128 numbers, 32 bytes with four planes
  int8_t scales[16];
  Half scale;

  TENSORA_HD int level(int i) const {
    const int low = q[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    return (low | (high[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) << 4) - 32;
  }
  TENSORA_HD float number(int i) const {
    return static_cast<float>(scale) * static_cast<float>(scales[i / kGroup]) *
           static_cast<float>(level(i));
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const auto code = blocks::encode_groups<kNumbers, kGroup>(x, -32.0f, 31.0f, -128.0f, 127.0f);
    scale = code.scale;
    for (int j = 0; j < 16; ++j) scales[j] = code.scales[j];
    for (int i = 0; i < 128; ++i) {
      const int8_t* levels = code.levels + i / 64 * 128 + i % 64;
      q[i] = static_cast<uint8_t>((levels[0] & 15) | (levels[64] & 15) << 4);
    }
    for (int i = 0; i < 64; ++i) {
      int bits = 0;
      for (int k = 0; k < 4; ++k)
        bits |= (code.levels[i / 32 * 128 + i % 32 + 32 * k] + 32) >> 4 << 2 * k;
      high[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(BlockQ6_K) == dtype_info(DType::q6_k).block_bytes &&
              BlockQ6_K::kNumbers == dtype_info(DType::q6_k).block_numbers);

}  // namespace tensora
