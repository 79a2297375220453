#pragma once

// GGUF's Q3_K, for kernels on host and device: blocks of 256 numbers in groups of 16 with
// scales of their own, x = scale * group_scale * q, q from -4 to 3.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"
#include "tensora/ops/quant/group_codes.h"

namespace tensora {

struct BlockQ3_K {
  static constexpr DType kDType = DType::q3_k;
  static constexpr int kNumbers = 256;
  static constexpr int kGroup = 16;
  uint8_t high[32];    // bit i / 32 of byte i % 32 is the third of number i
  uint8_t q[64];       // the other two: per 128 numbers, 32 bytes with four planes of 2 bits
  uint8_t scales[12];  // six bits each: the low four in bytes 0 to 7, the high two in 8 to 11
  Half scale;

  TENSORA_HD int group_scale(int j) const {
    const int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
    return (low | (scales[8 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32;
  }
  TENSORA_HD int level(int i) const {
    const int low = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    return (low | (high[i % 32] >> (i / 32) & 1) << 2) - 4;
  }
  TENSORA_HD float number(int i) const {
    return static_cast<float>(scale) * static_cast<float>(group_scale(i / kGroup)) *
           static_cast<float>(level(i));
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const auto code = blocks::encode_groups<kNumbers, kGroup>(x, -4.0f, 3.0f, -32.0f, 31.0f);
    scale = code.scale;
    for (int j = 0; j < 8; ++j)
      scales[j] = static_cast<uint8_t>((code.scales[j] & 15) | (code.scales[j + 8] & 15) << 4);
    for (int j = 0; j < 4; ++j) {
      int bits = 0;
      for (int k = 0; k < 4; ++k) bits |= (code.scales[j + 4 * k] + 32) >> 4 << 2 * k;
      scales[8 + j] = static_cast<uint8_t>(bits);
    }
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int k = 0; k < 8; ++k) bits |= (code.levels[i + 32 * k] + 4) >> 2 << k;
      high[i] = static_cast<uint8_t>(bits);
    }
    for (int i = 0; i < 64; ++i) {
      int bits = 0;
      for (int k = 0; k < 4; ++k)
        bits |= (code.levels[i / 32 * 128 + i % 32 + 32 * k] & 3) << 2 * k;
      q[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(BlockQ3_K) == dtype_info(DType::q3_k).block_bytes &&
              BlockQ3_K::kNumbers == dtype_info(DType::q3_k).block_numbers);

}  // namespace tensora
