#pragma once

// GGUF's IQ4_XS, for kernels on host and device: blocks of 256 numbers in groups of 32 with
// scales of their own, x = scale * group_scale * table[q].

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"
#include "tensora/ops/quant/stepped_table.h"

namespace tensora {

struct BlockIQ4_XS {
  static constexpr DType kDType = DType::iq4_xs;
  static constexpr int kNumbers = 256;
  static constexpr int kGroup = 32;
  Half scale;
  uint8_t scales_high[2];  // two bits of each group's scale; group 0 in the lowest
  uint8_t scales_low[4];   // four bits each, even groups in the low halves
  uint8_t q[128];          // per group, 16 bytes as in IQ4_NL

  TENSORA_HD int group_scale(int j) const {
    const int low = scales_low[j / 2] >> (j % 2 * 4) & 15;
    return (low | (scales_high[j / 4] >> (j % 4 * 2) & 3) << 4) - 32;
  }
  TENSORA_HD int level(int i) const {
    return SteppedTable::value(q[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15);
  }
  TENSORA_HD float number(int i) const {
    return static_cast<float>(scale) * static_cast<float>(group_scale(i / kGroup)) *
           static_cast<float>(level(i));
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    constexpr int kGroups = kNumbers / kGroup;
    float fits[kGroups];
    for (int j = 0; j < kGroups; ++j) fits[j] = SteppedTable::fit<kGroup>(x + j * kGroup);
    scale = Half(blocks::extreme_of<kGroups>(fits) / -32.0f);
    const float inverse = blocks::inverse_or_zero(static_cast<float>(scale));
    int bits = 0;
    for (int j = 0; j < 4; ++j) scales_low[j] = 0;
    for (int j = 0; j < kGroups; ++j) {
      const float step = blocks::clamped(math::rint(fits[j] * inverse), -32.0f, 31.0f);
      const int stored = static_cast<int>(step) + 32;
      scales_low[j / 2] = static_cast<uint8_t>(scales_low[j / 2] | (stored & 15) << (j % 2 * 4));
      bits |= stored >> 4 << 2 * j;
      uint8_t indices[kGroup];
      SteppedTable::round<kGroup>(
          x + j * kGroup, blocks::inverse_or_zero(static_cast<float>(scale) * step), indices);
      for (int i = 0; i < 16; ++i)
        q[j * 16 + i] = static_cast<uint8_t>(indices[i] | indices[i + 16] << 4);
    }
    scales_high[0] = static_cast<uint8_t>(bits);
    scales_high[1] = static_cast<uint8_t>(bits >> 8);
  }
};
static_assert(sizeof(BlockIQ4_XS) == dtype_info(DType::iq4_xs).block_bytes &&
              BlockIQ4_XS::kNumbers == dtype_info(DType::iq4_xs).block_numbers);

}  // namespace tensora
