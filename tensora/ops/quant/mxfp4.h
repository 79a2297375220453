#pragma once

// MXFP4, for kernels on host and device: the Open Compute Project's blocks of 32
// numbers of 4 bits (one of the exponent 2, two, one of the fraction) times a power of two.

#include <cstdint>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/block_fit.h"

namespace tensora {

struct BlockMXFP4 {
  static constexpr DType kDType = DType::mxfp4;
  static constexpr int kNumbers = 32;
  uint8_t exponent;  // of two, plus 127; 255 is NaN
  uint8_t q[16];     // numbers 0 to 15 in the low halves, 16 to 31 in the high ones

  /// Twice the number of a code: 0 1 2 3 4 6 8 12, and the same negative.
  TENSORA_HD static int doubled(int code) {
    const int magnitude = static_cast<int>(0xc8643210u >> (code & 7) * 4 & 15);
    return code & 8 ? -magnitude : magnitude;
  }
  /// Half the scale; it is subnormal for the two smallest exponents.
  TENSORA_HD float half_scale() const {
    if (exponent == 255) return blocks::kNaN;
    return float_of(exponent < 2 ? 0x200000u << exponent
                                 : static_cast<unsigned>(exponent - 1) << 23);
  }
  TENSORA_HD int level(int i) const { return doubled(i < 16 ? q[i] & 15 : q[i - 16] >> 4); }
  TENSORA_HD float number(int i) const { return half_scale() * static_cast<float>(level(i)); }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    // The power of two that brings the largest magnitude into [4, 8).
    const unsigned bits = bits_of(blocks::extreme_of<kNumbers>(x)) >> 23 & 255;
    exponent = static_cast<uint8_t>(bits == 255 ? 255 : bits > 2 ? bits - 2 : 0);
    const float inverse = blocks::inverse_or_zero(half_scale());
    const auto code = [&](int i) {
      const float doubled_magnitude = math::abs(x[i]) * inverse;
      // Half way between neighbours, where the smaller one wins.
      int nearest = 0;
      const float middles[] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
      for (float middle : middles) nearest += static_cast<int>(doubled_magnitude > middle);
      return nearest | static_cast<int>(x[i] < 0.0f && nearest > 0) << 3;
    };
    for (int i = 0; i < 16; ++i) q[i] = static_cast<uint8_t>(code(i) | code(i + 16) << 4);
  }
};
static_assert(sizeof(BlockMXFP4) == dtype_info(DType::mxfp4).block_bytes &&
              BlockMXFP4::kNumbers == dtype_info(DType::mxfp4).block_numbers);

}  // namespace tensora
