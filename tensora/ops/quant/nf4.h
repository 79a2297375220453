#pragma once

// NF4, for kernels on host and device: 4-bit NormalFloat: blocks of 64 numbers,
// x = scale * table[q]. The table divides a normal distribution into 16 equally likely parts.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"

namespace tensora {

struct BlockNF4 {
  static constexpr DType kDType = DType::nf4;
  static constexpr int kNumbers = 64;
  Half scale;     // the largest magnitude
  uint8_t q[32];  // number 2i in the high half of byte i, 2i + 1 in the low one

  TENSORA_HD static float value(int index) {
    constexpr float table[16] = {-1.0f,
                                 -0.6961928009986877f,
                                 -0.5250730514526367f,
                                 -0.39491748809814453f,
                                 -0.28444138169288635f,
                                 -0.18477343022823334f,
                                 -0.09105003625154495f,
                                 0.0f,
                                 0.07958029955625534f,
                                 0.16093020141124725f,
                                 0.24611230194568634f,
                                 0.33791524171829224f,
                                 0.44070982933044434f,
                                 0.5626170039176941f,
                                 0.7229568362236023f,
                                 1.0f};
    return table[index];
  }
  TENSORA_HD float number(int i) const {
    return static_cast<float>(scale) * value(q[i / 2] >> (i % 2 ? 0 : 4) & 15);
  }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const float largest = math::abs(blocks::extreme_of<kNumbers>(x));
    const float inverse = blocks::inverse_or_zero(largest);
    scale = Half(largest);
    const auto nearest = [&](int i) {
      const float scaled = x[i] * inverse;
      int index = 0;
      for (int k = 0; k < 15; ++k)
        index += static_cast<int>(scaled > (value(k) + value(k + 1)) / 2.0f);
      return index;
    };
    for (int i = 0; i < 32; ++i)
      q[i] = static_cast<uint8_t>(nearest(2 * i) << 4 | nearest(2 * i + 1));
  }
};
static_assert(sizeof(BlockNF4) == dtype_info(DType::nf4).block_bytes &&
              BlockNF4::kNumbers == dtype_info(DType::nf4).block_numbers);

}  // namespace tensora
