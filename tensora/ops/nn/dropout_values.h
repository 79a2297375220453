#pragma once

// Internal header
// Which elements a dropout keeps; compiled for the host and by nvcc.
//
// Note [Four in a row]
// The four words of a counter belong to four adjacent elements: a GPU thread that moves 16 bytes at
// a time has all that it needs, and the backward finds the same numbers in the same way. Nothing is
// stored in between.

#include "tensora/ops/random/random_values.h"

namespace tensora {

/// y = x * scale + kept where an element is kept, which has the probability 1 - p, else
/// x * 0 + dropped.
struct DropoutAttrs {
  unsigned long seed = 0, offset = 0;
  double p = 0.5, scale = 2;
  double kept = 0, dropped = 0;

  /// An element is kept if its word is below this.
  TENSORA_HD unsigned long long limit() const {
    return static_cast<unsigned long long>(product(1 - p, 0x1p32));
  }
  TENSORA_HD bool shifts() const { return kept != 0 || dropped != 0; }
};

/// y = x * (a number drawn from [lower, upper) where the second input is not above 0, else 1)
struct RandomSlopeAttrs {
  unsigned long seed = 0, offset = 0;
  double lower = 1. / 8, upper = 1. / 3;

  /// As Uniform's values are.
  TENSORA_HD float slope(unsigned word) const {
    const float low = static_cast<float>(lower), high = static_cast<float>(upper);
    const float value = product(random_detail::unit(word), high - low) + low;
    return value == high ? low : value;
  }
};

}  // namespace tensora
