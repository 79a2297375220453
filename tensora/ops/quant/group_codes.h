#pragma once

#include <cstdint>

#include "tensora/ops/quant/block_fit.h"

// The search behind the K formats: groups of numbers have scales (and offsets) that are themselves
// whole multiples of a block's scale.

namespace tensora::blocks {

/// x = scale * scales[group] * levels[i] - low * lows[group].
template <int Numbers, int Group>
struct AffineCode {
  Half scale, low;
  uint8_t scales[Numbers / Group], lows[Numbers / Group];
  uint8_t levels[Numbers];
};

/// Whether x is a number by which others can be multiplied.
template <int N>
[[gnu::always_inline]] TENSORA_HD inline bool all_finite(const float* x) {
  int strange = 0;
  for (int i = 0; i < N; ++i) strange |= static_cast<int>(!math::isfinite(x[i]));
  return strange == 0;
}

template <int Numbers, int Group>
[[gnu::always_inline]] TENSORA_HD inline AffineCode<Numbers, Group> encode_affine_groups(
    const float* x, float most_level, float most_scale) {
  constexpr int kGroups = Numbers / Group;
  AffineCode<Numbers, Group> code{};
  if (!all_finite<Numbers>(x)) {  // no scale: all of the block becomes NaN
    code.scale = code.low = Half(kNaN);
    return code;
  }
  Affine fits[kGroups];
  float most = 0.0f, most_low = 0.0f;
  for (int j = 0; j < kGroups; ++j) {
    fits[j] = fit_affine<Group>(x + j * Group, most_level);
    most = fits[j].scale > most ? fits[j].scale : most;
    most_low = fits[j].offset > most_low ? fits[j].offset : most_low;
  }
  Affine factors{most / most_scale, most_low / most_scale};
  float levels[Numbers];
  for (int pass = 0;; ++pass) {
    code.scale = Half(factors.scale);
    code.low = Half(factors.offset);
    const float scale = code.scale, low = code.low;
    const float inverse = inverse_or_zero(scale), low_inverse = inverse_or_zero(low);
    float scaled[Numbers], lows[Numbers];
    for (int j = 0; j < kGroups; ++j) {
      const float group = clamped(math::rint(fits[j].scale * inverse), 0.0f, most_scale);
      const float offset = clamped(math::rint(fits[j].offset * low_inverse), 0.0f, most_scale);
      code.scales[j] = static_cast<uint8_t>(group);
      code.lows[j] = static_cast<uint8_t>(offset);
      round_to_levels<Group>(x + j * Group, -low * offset, inverse_or_zero(scale * group), 0.0f,
                             most_level, levels + j * Group);
      for (int i = j * Group; i < (j + 1) * Group; ++i) {
        scaled[i] = group * levels[i];
        lows[i] = offset;
      }
    }
    if (pass == 1) break;
    // What these levels would rather be multiplied with; once more with that.
    factors = fit_factors<Numbers>(x, scaled, lows, factors);
  }
  for (int i = 0; i < Numbers; ++i) code.levels[i] = static_cast<uint8_t>(levels[i]);
  return code;
}

/// x = scale * scales[group] * levels[i].
template <int Numbers, int Group>
struct SymmetricCode {
  Half scale;
  int8_t scales[Numbers / Group];
  int8_t levels[Numbers];
};

template <int Numbers, int Group>
[[gnu::always_inline]] TENSORA_HD inline SymmetricCode<Numbers, Group> encode_groups(
    const float* x, float least_level, float most_level, float least_scale, float most_scale) {
  constexpr int kGroups = Numbers / Group;
  SymmetricCode<Numbers, Group> code{};
  if (!all_finite<Numbers>(x)) {  // no scale: all of the block becomes NaN
    code.scale = Half(kNaN);
    return code;
  }
  float fits[kGroups];
  for (int j = 0; j < kGroups; ++j)
    fits[j] = fit_symmetric<Group>(x + j * Group, least_level, most_level);
  float factor = extreme_of<kGroups>(fits) / least_scale;
  float levels[Numbers];
  for (int pass = 0;; ++pass) {
    code.scale = Half(factor);
    const float scale = code.scale, inverse = inverse_or_zero(scale);
    float scaled[Numbers];
    for (int j = 0; j < kGroups; ++j) {
      const float group = clamped(math::rint(fits[j] * inverse), least_scale, most_scale);
      code.scales[j] = static_cast<int8_t>(group);
      round_to_levels<Group>(x + j * Group, 0.0f, inverse_or_zero(scale * group), least_level,
                             most_level, levels + j * Group);
      for (int i = j * Group; i < (j + 1) * Group; ++i) scaled[i] = group * levels[i];
    }
    if (pass == 1) break;
    // What these levels would rather be multiplied with; once more with that.
    const float squares = sum_of_products<Numbers>(scaled, scaled);
    if (squares > 0.0f) factor = sum_of_products<Numbers>(x, scaled) / squares;
  }
  for (int i = 0; i < Numbers; ++i) code.levels[i] = static_cast<int8_t>(levels[i]);
  return code;
}

}  // namespace tensora::blocks
