#pragma once

// How encoders of the block formats choose scales, on host and device: by least squares over a few
// roundings. The sums are taken in a fixed order, so that every processor finds the same scales.

#include "tensora/base/half.h"
#include "tensora/base/math.h"

namespace tensora::blocks {

// Note [Encoders are inlined]
// Kernels are compiled once per instruction set. A function that the compiler leaves out of line
// exists once in the library, for the weakest set; an inlined one uses what the kernel may use.

inline constexpr float kNaN = __builtin_nanf("");

/// The sum of a[i] * b[i].
template <int N>
[[gnu::always_inline]] TENSORA_HD inline float sum_of_products(const float* a, const float* b) {
  constexpr int kLanes = 16;
  static_assert(N % kLanes == 0);
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = a[i] * b[i];
  for (int begin = kLanes; begin < N; begin += kLanes)
    for (int i = 0; i < kLanes; ++i) lanes[i] += a[begin + i] * b[begin + i];
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

template <int N>
[[gnu::always_inline]] TENSORA_HD inline float sum_of(const float* a) {
  float ones[N];
  for (int i = 0; i < N; ++i) ones[i] = 1.0f;
  return sum_of_products<N>(a, ones);
}

/// x within its bounds; NaN becomes the lower one.
TENSORA_HD inline float clamped(float x, float low, float high) {
  const float above = x > low ? x : low;
  return above < high ? above : high;
}

/// 1 / x; 0 where x is 0 or so small that nothing can be divided by it.
TENSORA_HD inline float inverse_or_zero(float x) {
  const float inverse = 1.0f / x;
  return math::isfinite(inverse) ? inverse : 0.0f;
}

/// The number of the largest magnitude, with its sign; the first of several. NaN if one is there.
template <int N>
[[gnu::always_inline]] TENSORA_HD inline float extreme_of(const float* x) {
  float extreme = 0.0f, magnitude = 0.0f;
  for (int i = 0; i < N; ++i) {
    // NaN stays: it is not below anything.
    if (math::abs(x[i]) <= magnitude || magnitude != magnitude) continue;
    magnitude = math::abs(x[i]);
    extreme = x[i];
  }
  return extreme;
}

struct Range {
  float low, high;
};
/// The smallest and the largest number; NaN if one is there.
template <int N>
[[gnu::always_inline]] TENSORA_HD inline Range range_of(const float* x) {
  Range range{x[0], x[0]};
  int strange = 0;
  for (int i = 0; i < N; ++i) {
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
    strange |= static_cast<int>(x[i] != x[i]);
  }
  return strange ? Range{kNaN, kNaN} : range;
}

/// The levels to which `inverse` rounds x - low, from `least` to `most`.
template <int N>
[[gnu::always_inline]] TENSORA_HD inline void round_to_levels(const float* x, float low,
                                                              float inverse, float least,
                                                              float most, float* levels) {
  for (int i = 0; i < N; ++i) levels[i] = clamped(math::rint((x[i] - low) * inverse), least, most);
}

/// The scale for which N numbers are best `scale` times a whole number from `least` < 0 to `most`.
template <int N>
[[gnu::always_inline]] TENSORA_HD inline float fit_symmetric(const float* x, float least,
                                                             float most) {
  const float extreme = extreme_of<N>(x);
  const float unit = inverse_or_zero(extreme);
  float best = 0.0f, best_gain = 0.0f;
  // The extreme number goes to about the level of the largest magnitude.
  for (int step = -9; step <= 9; ++step) {
    float levels[N];
    round_to_levels<N>(x, 0.0f, (least + 0.1f * static_cast<float>(step)) * unit, least, most,
                       levels);
    const float products = sum_of_products<N>(x, levels);
    const float squares = sum_of_products<N>(levels, levels);
    // The sum of squared errors is that of x² minus this.
    const float gain = squares > 0.0f ? products * (products / squares) : 0.0f;
    if (!(gain > best_gain)) continue;
    best_gain = gain;
    best = products / squares;
  }
  return best;
}

struct Affine {
  float scale, offset;  // both at least 0: x = scale * level - offset
};
/// The same with levels from 0 to `most` and an offset.
template <int N>
[[gnu::always_inline]] TENSORA_HD inline Affine fit_affine(const float* x, float most) {
  Range range = range_of<N>(x);
  if (range.low > 0.0f) range.low = 0.0f;
  Affine best{0.0f, -range.low};
  const float unit = inverse_or_zero(range.high - range.low);
  if (!(unit > 0.0f)) return best;
  const float count = static_cast<float>(N), sum_x = sum_of<N>(x);
  float best_gain = 0.0f;
  bool found = false;
  for (int step = -9; step <= 9; ++step) {
    float levels[N];
    round_to_levels<N>(x, range.low, (most + 0.1f * static_cast<float>(step)) * unit, 0.0f, most,
                       levels);
    const float products = sum_of_products<N>(x, levels);
    const float squares = sum_of_products<N>(levels, levels);
    const float sum = sum_of<N>(levels);
    const float determinant = count * squares - sum * sum;
    if (!(squares > 0.0f)) continue;
    float scale = (count * products - sum_x * sum) / determinant;
    float offset = (sum * products - sum_x * squares) / determinant;
    if (!(determinant > 0.0f) || offset < 0.0f) {
      offset = 0.0f;
      scale = products / squares;
    }
    if (!(scale > 0.0f)) continue;
    // The sum of squared errors is that of x² minus this.
    const float gain = 2.0f * (scale * products - offset * sum_x) - scale * scale * squares +
                       2.0f * scale * offset * sum - count * offset * offset;
    if (found && !(gain > best_gain)) continue;
    found = true;
    best_gain = gain;
    best = {scale, offset};
  }
  return best;
}

/// The two factors with which x is best a * first[i] - b * second[i].
template <int N>
[[gnu::always_inline]] TENSORA_HD inline Affine fit_factors(const float* x, const float* first,
                                                            const float* second, Affine fallback) {
  const float aa = sum_of_products<N>(first, first), bb = sum_of_products<N>(second, second);
  const float ab = sum_of_products<N>(first, second);
  const float xa = sum_of_products<N>(x, first), xb = sum_of_products<N>(x, second);
  if (!(aa > 0.0f)) return fallback;
  const float determinant = aa * bb - ab * ab;
  Affine result{xa / aa, 0.0f};
  // Where the two are nearly the same, nothing tells their factors apart.
  if (determinant > 1e-4f * aa * bb)
    result = {(xa * bb - xb * ab) / determinant, (xa * ab - xb * aa) / determinant};
  else if (bb > 0.0f)
    return fallback;
  return result.scale > 0.0f && result.offset >= 0.0f ? result : fallback;
}

}  // namespace tensora::blocks
