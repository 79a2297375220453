#pragma once

// GGUF's IQ4_NL, for kernels on host and device: blocks of 32 numbers, x = scale * table[q].

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"
#include "tensora/ops/quant/stepped_table.h"

namespace tensora {

struct BlockIQ4_NL {
  static constexpr DType kDType = DType::iq4_nl;
  static constexpr int kNumbers = 32;
  Half scale;
  uint8_t q[16];  // numbers 0 to 15 in the low halves, 16 to 31 in the high ones

  TENSORA_HD int level(int i) const {
    return SteppedTable::value(i < 16 ? q[i] & 15 : q[i - 16] >> 4);
  }
  TENSORA_HD float number(int i) const {
    return static_cast<float>(scale) * static_cast<float>(level(i));
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    scale = Half(SteppedTable::fit<kNumbers>(x));
    uint8_t indices[kNumbers];
    SteppedTable::round<kNumbers>(x, blocks::inverse_or_zero(static_cast<float>(scale)), indices);
    for (int i = 0; i < 16; ++i) q[i] = static_cast<uint8_t>(indices[i] | indices[i + 16] << 4);
  }
};
static_assert(sizeof(BlockIQ4_NL) == dtype_info(DType::iq4_nl).block_bytes &&
              BlockIQ4_NL::kNumbers == dtype_info(DType::iq4_nl).block_numbers);

}  // namespace tensora
