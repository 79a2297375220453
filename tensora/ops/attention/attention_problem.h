#pragma once

// Internal header
// What the kernels of both devices know about one call of attention.

#include <cmath>

#include "tensora/core/philox.h"
#include "tensora/ops/attention/attention.h"

namespace tensora {

/// Note [Dropout of a matrix never stored]
/// The probability in row (b, h, l) and column s is kept if word number ((b H + h) L + l) S + s of
/// the random stream says so, dealt out as to a tensor of that shape (Note [Lanes]). So forward and
/// backward find the same mask, on any device, in tiles of any size. For packed sequences l counts
/// through all of them, s within one, and S is the most keys of one.
struct AttentionDropout {
  unsigned long long seed = 0, offset = 0;
  unsigned last = 0;  // a word up to this one keeps the probability
  bool on = false, keeps_any = true;
  double factor = 1;  // of what is kept

  TENSORA_HD bool keeps(long long element) const {
    const unsigned long long block = static_cast<unsigned long long>(element) / 128;
    const unsigned place = static_cast<unsigned>(element % 128);
    const PhiloxWords words = philox(seed, offset + block * kPhiloxLanes + place % kPhiloxLanes);
    return keeps_any && words.word[place / kPhiloxLanes] <= last;
  }
};

inline AttentionDropout dropout_of(const AttentionAttrs& attrs) {
  const double words = (1 - attrs.dropout_p) * 0x1p32;
  return {.seed = attrs.seed,
          .offset = attrs.offset,
          .last = words < 1 ? 0u : static_cast<unsigned>(words - 1),
          .on = attrs.dropout_p > 0,
          .keeps_any = words >= 1,
          .factor = words >= 1 ? 1 / (1 - attrs.dropout_p) : 0};
}

inline double scale_of(const AttentionAttrs& attrs, int64_t head_size) {
  return attrs.scale.value_or(1 / std::sqrt(static_cast<double>(head_size)));
}

/// An optional input of a kernel: null if it was left out.
inline const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

}  // namespace tensora
