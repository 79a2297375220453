#pragma once

// Internal header
// Distributions by inversion: each value follows from one uniform number. Compiled and rounded as
// those of random_values.h are; see Note [Same numbers everywhere] there.

#include "tensora/ops/random/random_values.h"

namespace tensora {

namespace random_detail {

/// In (0, 1]: the middle of one of 2^24 (2^53 for double) equal parts.
TENSORA_HD inline float middle(unsigned word) { return unit(word) + 0x1p-25f; }
TENSORA_HD inline double middle(unsigned high, unsigned low) { return unit(high, low) + 0x1p-54; }
/// The same for the parts of (-1, 1), where every middle is a number of the format.
TENSORA_HD inline float signed_middle(unsigned word) {
  return product(2.f, unit(word)) - 1 + 0x1p-24f;
}
TENSORA_HD inline double signed_middle(unsigned high, unsigned low) {
  return product(2., unit(high, low)) - 1 + 0x1p-53;
}

/// Calls value(word) four times, or value(high, low) twice: once for each of a counter's numbers.
template <class Value>
TENSORA_HD inline void for_each_number(const unsigned (&w)[4], float (&v)[4], const Value& value) {
  for (int k = 0; k < 4; ++k) v[k] = value(w[k]);
}
template <class Value>
TENSORA_HD inline void for_each_number(const unsigned (&w)[4], double (&v)[2], const Value& value) {
  for (int k = 0; k < 2; ++k) v[k] = value(w[2 * k], w[2 * k + 1]);
}

/// tan of `turns` quarter turns, between -1 and 1.
template <class V>
TENSORA_HD inline V tangent(V turns) {
  // Beyond an eighth of a turn, that of the complement is the inverse.
  const V magnitude = turns < 0 ? -turns : turns;
  const bool steep = magnitude > V(0.5);
  const Point<V> point = on_circle(0, steep ? 1 - magnitude : magnitude);
  const V value = steep ? point.x / point.y : point.y / point.x;
  return turns < 0 ? -value : value;
}

/// 2^k, for k between -1022 and 1023 (float: -126 and 127).
TENSORA_HD inline float power_of_two(int k, float) {
  return float_of(static_cast<unsigned>(k + 127) << 23);
}
TENSORA_HD inline double power_of_two(int k, double) {
  return double_of(static_cast<unsigned long long>(k + 1023) << 52);
}

/// The nearest whole number of one that is not large: the sum has no digits after the point.
TENSORA_HD inline float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
TENSORA_HD inline double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }
/// The least whole number that is not below x >= 0.
template <class V>
TENSORA_HD inline V rounded_up(V x) {
  if (!(x < V(0x1p52))) return x;
  const V whole = static_cast<V>(static_cast<long long>(x));
  return whole < x ? whole + 1 : whole;
}

/// exp(x) = 2^k exp(r) with |r| <= ln(2) / 2, by the series of exp; the limits are where the result
/// is 0 or infinite in any case.
template <class V, int N>
TENSORA_HD inline V exp_by_series(V x, V limit, V high, V low, const V (&series)[N]) {
  if (x != x) return x;
  const V within = x > limit ? limit : x < -limit ? -limit : x;
  const V whole = nearest(product(within, V(1.44269504088896341)));
  const V rest = (within - product(whole, high)) - product(whole, low);
  const int k = static_cast<int>(whole), half = k / 2;
  const V scaled = product(polynomial(rest, series), power_of_two(half, x));
  return product(scaled, power_of_two(k - half, x));
}
TENSORA_HD inline float exp_of(float x) {
  const float series[] = {1 / 5040.f, 1 / 720.f, 1 / 120.f, 1 / 24.f, 1 / 6.f, 0.5f, 1.f, 1.f};
  return exp_by_series(x, 105.f, 0.693359375f, -2.12194440e-4f, series);
}
TENSORA_HD inline double exp_of(double x) {
  const double series[] = {1 / 6227020800.,
                           1 / 479001600.,
                           1 / 39916800.,
                           1 / 3628800.,
                           1 / 362880.,
                           1 / 40320.,
                           1 / 5040.,
                           1 / 720.,
                           1 / 120.,
                           1 / 24.,
                           1 / 6.,
                           0.5,
                           1.,
                           1.};
  return exp_by_series(x, 750., 0x1.62e42feep-1, 0x1.a39ef35793c76p-33, series);
}

}  // namespace random_detail

/// Density sigma / (pi (sigma² + (x - median)²)).
struct Cauchy {
  unsigned long seed = 0, offset = 0;
  double median = 0, sigma = 1;

  template <class V, int N>
  TENSORA_HD void values(const unsigned (&w)[4], V (&v)[N]) const {
    const V centre = static_cast<V>(median), width = static_cast<V>(sigma);
    random_detail::for_each_number(w, v, [=](auto... words) {
      return product(width, random_detail::tangent(random_detail::signed_middle(words...))) +
             centre;
    });
  }
};

/// exp of a normal number.
struct LogNormal {
  unsigned long seed = 0, offset = 0;
  double mean = 1, std = 2;

  template <class V, int N>
  TENSORA_HD void values(const unsigned (&w)[4], V (&v)[N]) const {
    Normal{.mean = mean, .std = std}.values(w, v);
    for (int k = 0; k < N; ++k) v[k] = random_detail::exp_of(v[k]);
  }
};

/// The number of trials up to the first success: u^(1 / log(1 - p)) rounded up.
struct Geometric {
  unsigned long seed = 0, offset = 0;
  double p = 0.5;
  double log_failure = -0.69314718055994531;  // log(1 - p)

  template <class V, int N>
  TENSORA_HD void values(const unsigned (&w)[4], V (&v)[N]) const {
    const V divisor = static_cast<V>(log_failure);
    random_detail::for_each_number(w, v, [=](auto... words) {
      const V trials = random_detail::rounded_up(
          random_detail::log_of(random_detail::middle(words...)) / divisor);
      return trials < 1 ? V(1) : trials;
    });
  }
};

}  // namespace tensora
