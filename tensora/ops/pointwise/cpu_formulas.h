#pragma once

// Internal header
// Formulas of the CPU for functors whose shared formula would call the C library: a call for every
// vector keeps nothing in registers, and costs more than the arithmetic. They give the same bits
// for every element, wherever in an array it is.

#include "tensora/backend/cpu/pointwise.h"
#include "tensora/base/math.h"

namespace tensora::functors {
struct Erf;
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
  float p = 1.5403495e-4f;
  p = p * r + 1.3390735e-3f;
  p = p * r + 9.618238e-3f;
  p = p * r + 5.5503573e-2f;
  p = p * r + 0.24022649f;
  p = p * r + 0.6931472f;
  p = p * r + 1.0f;
  return p * power_of_two(rounded);
}

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

/// The polynomial of Note [The normal distribution in float].
inline float normal_polynomial(float t) {
  float p = 0.0362079228f;
  p = p * t - 0.159049077f;
  p = p * t + 0.208803222f;
  p = p * t - 0.0551814701f;
  p = p * t + 0.128908884f;
  p = p * t + 0.0999547915f;
  p = p * t + 0.120722853f;
  p = p * t + 0.119632887f;
  return p;
}

/// normal_cdf's formula, with a power of its own. Where |x| is bounded, that power is 0.
template <>
struct CpuFormula<functors::Gelu> {
  static float forward(float x) {
    const float magnitude = math::abs(x);
    const float bounded = magnitude > 13.28f ? 13.28f : magnitude;
    const float t = 1.0f / (0.3f * bounded + 1.0f);
    const float power = quick_exp2(bounded * bounded * -0.72134752f);
    const float tail = normal_polynomial(t) * t * power;
    return x * (x > 0.0f ? 1.0f - tail : tail);
  }
};

}  // namespace tensora::cpu::TENSORA_ISA
