#pragma once

// Internal header
// Formulas of the CPU for functors whose shared formula would call the C library: a call for every
// vector keeps nothing in registers, and costs more than the arithmetic. They give the same bits
// for every element, wherever in an array it is.

#include "tensora/backend/cpu/pointwise.h"
#include "tensora/base/math.h"

namespace tensora::functors {
struct Erf;
struct Exp;
struct Gelu;
struct Tanh;
}  // namespace tensora::functors

namespace tensora::cpu::TENSORA_ISA {

// Note [Powers of two by shifting]
// Adding 1.5 * 2^23 rounds a float to an integer n, which then stands in its low bits; shifted to
// the exponent's place they are 2^n. The 127 is the exponent's bias, and n = -127 becomes zero.
inline constexpr float kRounding = 12582912.0f + 127.0f;
inline float power_of_two(float rounded) {
  return __builtin_bit_cast(float, __builtin_bit_cast(int, rounded) << 23);
}

/// exp(x) - 1 for -80 < x < 80, to 1.5 ulp: exp(x) = 2^n exp(r), and a polynomial for exp(r) - 1 of
/// least relative error on [-ln 2 / 2, ln 2 / 2].
inline float quick_expm1(float x) {
  const float rounded = x * 1.44269504f + kRounding;
  const float r = x - (rounded - kRounding) * 0.693147182f;
  float p = 0.0013882396f;
  p = p * r + 0.008367181f;
  p = p * r + 0.041667223f;
  p = p * r + 0.16666539f;
  p = p * r + 0.49999997f;
  const float power = power_of_two(rounded);
  return (p * (r * r) + r) * power + (power - 1.0f);
}

/// 2^x for -127.5 < x <= 0, to 2 ulp; 0 where the result would not be normal.
inline float quick_exp2(float x) {
  const float rounded = x + kRounding;
  const float r = x - (rounded - kRounding);
  float p = 1.32695946e-3f;
  p = p * r + 9.67139471e-3f;
  p = p * r + 5.55071123e-2f;
  p = p * r + 0.240222454f;
  p = p * r + 0.693147004f;
  p = p * r + 1.0f;
  return p * power_of_two(rounded);
}

/// To 3 ulp, subnormal results included: 2^n exp(r), with a polynomial of least relative error for
/// exp(r). It gives twice that, for 2^(n - 1) exists for every finite result; a power too small for
/// a normal number is multiplied in two steps.
template <>
struct CpuFormula<functors::Exp> {
  static float forward(float x) {
    constexpr float kShift = 12582912.0f + 126.0f;
    constexpr float kMost = 88.8f, kLeast = -104.0f, kSmall = -86.0f;
    const float rounded = x * 1.44269504f + kShift;
    const float n = rounded - kShift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 0.016625354f;
    p = p * r + 0.083781235f;
    p = p * r + 0.33334228f;
    p = p * r + 0.99998456f;
    p = p * r + 2.0f;
    p = p * r + 2.0f;
    const int lifted = x < kSmall ? 64 << 23 : 0;
    const float power =
        __builtin_bit_cast(float, (__builtin_bit_cast(int, rounded) << 23) + lifted);
    const float value = p * power * (x < kSmall ? 0x1p-64f : 1.0f);
    const float bounded = x < kLeast ? 0.0f : value;
    return x > kMost ? __builtin_inff() : bounded;
  }
};

/// To 3 ulp: with e = exp(2 |x|) - 1 nothing cancels, near zero neither.
template <>
struct CpuFormula<functors::Tanh> {
  static float forward(float x) {
    const float magnitude = math::abs(x);
    const float bounded = magnitude > 10.0f ? 10.0f : magnitude;
    const float e = quick_expm1(bounded + bounded);
    return math::copysign(e / (e + 2.0f), x);
  }
};

/// To 3 ulp: 1 - exp(-x h(x)), where the polynomial h has the least relative error of the result on
/// [0, 4].
template <>
struct CpuFormula<functors::Erf> {
  static float forward(float x) {
    const float magnitude = math::abs(x);
    const float bounded = magnitude > 4.0f ? 4.0f : magnitude;
    float h = -9.25634e-06f;
    h = h * bounded + 1.1764197e-4f;
    h = h * bounded - 6.3283945e-4f;
    h = h * bounded + 1.6670325e-3f;
    h = h * bounded - 1.6040144e-4f;
    h = h * bounded - 0.01915306f;
    h = h * bounded + 0.10277783f;
    h = h * bounded + 0.6366194f;
    h = h * bounded + 1.1283792f;
    return math::copysign(quick_expm1(-(h * bounded)), x);
  }
};

/// As normal_cdf, by its tail (Note [The normal distribution in float]), with a power of its own
/// and a shorter polynomial: 0.35 instead of 0.3 makes one of degree 6 as good. Where |x| is
/// bounded, the power is 0.
template <>
struct CpuFormula<functors::Gelu> {
  static float forward(float x) {
    const float magnitude = math::abs(x);
    const float bounded = magnitude > 13.28f ? 13.28f : magnitude;
    const float t = 1.0f / (0.35f * bounded + 1.0f);
    const float power = quick_exp2(bounded * bounded * -0.72134752f);
    float p = 0.0462164842f;
    p = p * t - 0.190761238f;
    p = p * t + 0.221101895f;
    p = p * t + 0.000879638596f;
    p = p * t + 0.14657633f;
    p = p * t + 0.136152968f;
    p = p * t + 0.139833912f;
    const float tail = p * t * power;
    return x * (x > 0.0f ? 1.0f - tail : tail);
  }
};

}  // namespace tensora::cpu::TENSORA_ISA
