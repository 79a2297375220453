#pragma once

// GGUF's Q5_K, for kernels on host and device: Q4_K with a fifth bit.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/group_codes.h"
#include "tensora/ops/quant/six_bit_scales.h"

namespace tensora {

struct BlockQ5_K {
  static constexpr DType kDType = DType::q5_k;
  static constexpr int kNumbers = SixBitGroups::kNumbers;
  static constexpr int kGroup = SixBitGroups::kGroup;
  SixBitGroups groups;
  uint8_t high[32];  // bit i / 32 of byte i % 32 is the fifth of number i
  FourBitLevels q;   // the other four

  TENSORA_HD float number(int i) const {
    return groups.number(i, q.level(i) | (high[i % 32] >> (i / 32) & 1) << 4);
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const auto code = blocks::encode_affine_groups<kNumbers, kGroup>(x, 31.0f, 63.0f);
    groups.set(code);
    q.set(code.levels);
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
