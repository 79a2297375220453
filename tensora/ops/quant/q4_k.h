#pragma once

// GGUF's Q4_K, for kernels on host and device.

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/group_codes.h"
#include "tensora/ops/quant/six_bit_scales.h"

namespace tensora {

struct BlockQ4_K {
  static constexpr DType kDType = DType::q4_k;
  static constexpr int kNumbers = SixBitGroups::kNumbers;
  static constexpr int kGroup = SixBitGroups::kGroup;
  SixBitGroups groups;
  FourBitLevels q;

  TENSORA_HD float number(int i) const { return groups.number(i, q.level(i)); }

  [[gnu::always_inline]] TENSORA_HD void encode(const float* x) {
    const auto code = blocks::encode_affine_groups<kNumbers, kGroup>(x, 15.0f, 63.0f);
    groups.set(code);
    q.set(code.levels);
  }
};
static_assert(sizeof(BlockQ4_K) == dtype_info(DType::q4_k).block_bytes &&
              BlockQ4_K::kNumbers == dtype_info(DType::q4_k).block_numbers);

}  // namespace tensora
