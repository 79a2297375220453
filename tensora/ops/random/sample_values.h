#pragma once

// Internal header
// What drawing by weight computes, the same on the host and on the device.
//
// Note [Weights as integers]
// Categories are drawn by cumulative weights, and sums of floats depend on the order in which they
// are added, which differs from device to device. So the weights of a row are scaled by a power of
// two such that the largest has as many bits as the row's sum permits without overflow, and are
// truncated to integers, whose sums are exact in any order. A weight above zero counts as at
// least 1. The truncation error is below 2^-61 of the largest weight times the number of
// categories.

#include <cmath>

#include "tensora/ops/random/random_values.h"

namespace tensora {

/// The power of two that the weights of a row are scaled by. `largest` is above zero and finite.
TENSORA_HD inline int weight_exponent(double largest, long long categories) {
  int bits = 0;  // categories < 2^bits
  while (categories >> bits != 0) ++bits;
  // The largest is below 2^magnitude. Numbers too small for an exponent of their own count as the
  // smallest that have one.
  const int magnitude = static_cast<int>(random_detail::bits_of(largest) >> 52) - 1022;
  return 61 - bits - magnitude;
}

TENSORA_HD inline unsigned long long integer_weight(double weight, int exponent) {
  if (!(weight > 0)) return 0;
  const auto scaled = static_cast<unsigned long long>(::ldexp(weight, exponent));
  return scaled == 0 ? 1 : scaled;
}

/// False for what cannot be drawn by: a weight that is negative, infinite or NaN.
TENSORA_HD inline bool is_valid_weight(double weight) {
  return weight >= 0 && weight - weight == 0;
}

/// When a category arrives in the race of those drawn without replacement, as a number whose order
/// is that of the times; never for a category without weight.
TENSORA_HD inline unsigned long long arrival(double time, double weight) {
  return weight > 0 ? random_detail::bits_of(time / weight) : ~0ull;
}

}  // namespace tensora
