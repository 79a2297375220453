#pragma once

#include "tensora/base/math.h"

namespace tensora::cpu::TENSORA_ISA {

/// exp of numbers that are not positive, in a loop's own registers. To 2 ulp: 2^n times a
/// polynomial on [-ln 2 / 2, ln 2 / 2]; below the least normal number it is 0.
inline float exponential(float x) {
  const float bounded = x < -87.3f ? -87.3f : x;
  const float n = math::rint(bounded * 1.44269504f);
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float value = (p * r * r + r) + 1.0f;
  const float power = __builtin_bit_cast(float, (static_cast<int>(n) + 127) << 23);
  const float result = x < -87.3f ? 0.0f : value * power;
  return x == x ? result : x;
}
inline double exponential(double x) { return math::exp(x); }

}  // namespace tensora::cpu::TENSORA_ISA
