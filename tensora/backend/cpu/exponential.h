#pragma once

#include "tensora/base/math.h"

namespace tensora::cpu::TENSORA_ISA {

/// exp of numbers that are not positive, in a loop's own registers. To 2 ulp: 2^n times a
/// polynomial on [-ln 2 / 2, ln 2 / 2]. Results below the least normal number may be 0, and those
/// below half of it are.
inline float exponential(float x) {
  // A float this large has no digits behind the point: a sum is rounded to a whole number, and ends
  // in the bits of n + 127, the exponent of 2^n. At the bound they are 0, which stands for 0.
  constexpr float kShift = 0x1.8p23f + 127;
  const float bounded = x < -88.0f ? -88.0f : x;
  const float shifted = bounded * 1.44269504f + kShift;
  const float n = shifted - kShift;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * __builtin_bit_cast(float, __builtin_bit_cast(int, shifted) << 23);
}
inline double exponential(double x) { return math::exp(x); }

}  // namespace tensora::cpu::TENSORA_ISA
