#pragma once

// Internal header

#include "tensora/base/half.h"
#include "tensora/base/math.h"

namespace tensora::cpu::TENSORA_ISA {

/// e^x for x <= 0, to 1 ulp; results below the smallest normal number are 0. In line, so that a
/// loop around it keeps its values in registers: x = n ln 2 + r with |r| <= ln 2 / 2, and e^r is
/// a polynomial of least relative error there. Adding 1.5 * 2^23 rounds to the integer n and
/// leaves it in the low bits.
inline float decay(float x) {
  constexpr float kRound = 12582912.f, kHighLn2 = 0.693359375f, kLowLn2 = -0.000212194442f;
  const float shifted = x * 1.44269504f + kRound, n = shifted - kRound;
  const float r = (x - n * kHighLn2) - n * kLowLn2;
  const float p =
      (((0.0013814524f * r + 0.00836874724f) * r + 0.0416683912f) * r + 0.166665204f) * r +
      0.499999934f;
  const float fraction = (r * r * p + r) + 1.f;
  const float power = float_of((bits_of(shifted) << 23) + 0x3f800000u);
  return x < -87.3365f ? 0.f : fraction * power;
}
inline double decay(double x) { return math::exp(x); }

}  // namespace tensora::cpu::TENSORA_ISA
