#pragma once

#include <cstdint>

#include "tensora/base/host_device.h"

namespace tensora {

/// Which element of a sorted line is chosen. NaNs come last.
struct RankRule {
  enum class Kind : uint8_t { kth, median, nanmedian };
  Kind kind = Kind::kth;
  int64_t k = 1;

  TENSORA_HD int64_t rank(int64_t length, int64_t nans) const {
    if (kind == Kind::kth) return k - 1;
    if (kind == Kind::median) return nans > 0 ? length - nans : (length - 1) / 2;
    return nans < length ? (length - nans - 1) / 2 : 0;
  }
};

}  // namespace tensora
