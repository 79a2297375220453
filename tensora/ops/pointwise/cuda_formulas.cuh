#pragma once

// Shorter formulas for results of 16 bits, in which CUDA spends more time computing than reading.
// They are good to 4e-6 of the result: float16 rounds by 5e-4, so that all but one in a hundred
// results are what the exact one is rounded to, and the others its neighbour.

#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/base/math.h"

namespace tensora::functors {
struct Erf;
struct Sigmoid;
struct Silu;
struct Sin;
struct Tanh;
}  // namespace tensora::functors

namespace tensora::cuda {

using math::quick_reciprocal;

/// 2^x to 2 ulp; 0 where the result would not be normal.
__device__ inline float quick_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

inline constexpr float kLog2OfE = 1.44269504f;

__device__ inline float quick_sigmoid(float x) {
  return quick_reciprocal(quick_exp2(x * -kLog2OfE) + 1.0f);
}

template <>
struct HalfFormula<functors::Sigmoid> {
  __device__ static float forward(float x) { return quick_sigmoid(x); }
};

template <>
struct HalfFormula<functors::Silu> {
  __device__ static float forward(float x) { return x * quick_sigmoid(x); }
};

/// Near zero, where 1 - 2 / (exp(2 x) + 1) cancels, a polynomial of least relative error.
template <>
struct HalfFormula<functors::Tanh> {
  __device__ static float forward(float x) {
    const float far = 1.0f - 2.0f * quick_reciprocal(quick_exp2(x * (2 * kLog2OfE)) + 1.0f);
    const float square = x * x;
    const float near = x * ((0.12876421f * square - 0.33324571f) * square + 1.0f);
    return math::abs(x) < 0.25f ? near : far;
  }
};

/// Formula 7.1.26 of Abramowitz and Stegun, good to 1.5e-7; near zero a polynomial of least
/// relative error.
template <>
struct HalfFormula<functors::Erf> {
  __device__ static float forward(float x) {
    const float square = x * x;
    const float t = quick_reciprocal(0.3275911f * math::abs(x) + 1.0f);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const float far = 1.0f - p * t * quick_exp2(square * -kLog2OfE);
    const float near = x * ((0.11035163f * square - 0.37606828f) * square + 1.128379f);
    return math::abs(x) < 0.25f ? near : math::copysign(far, x);
  }
};

// Not inlined: few numbers of 16 bits are so large, and the reduction modulo pi takes hundreds of
// instructions.
__device__ __noinline__ inline float sin_of_large(float x) { return math::sin(x); }

/// sin(x) = (-1)^k sin(x - k pi), and a polynomial of least relative error on [-pi / 2, pi / 2].
/// Adding 1.5 * 2^23 rounds x / pi to k, whose lowest bit is then the lowest of all. The first
/// product with k leaves an exact difference, because x has few digits and pi is cut after 24 bits;
/// what was cut is positive, so that a zero keeps its sign.
template <>
struct HalfFormula<functors::Sin> {
  __device__ static float forward(float x) {
    constexpr float kRounding = 12582912.0f, kPi = 3.14159250f, kPiRest = 1.50995799e-7f;
    const float shifted = x * 0.318309886f + kRounding;
    const float k = shifted - kRounding;
    const float rest = __fmaf_rn(k, -kPiRest, __fmaf_rn(k, -kPi, x));
    const unsigned odd = __float_as_uint(shifted) << 31;
    const float r = __uint_as_float(__float_as_uint(rest) ^ odd), square = r * r;
    float p = -0.00018525690f;
    p = p * square + 0.0083137787f;
    p = p * square - 0.16665821f;
    const float near = r * (p * square + 1.0f);
    return math::abs(x) <= 32768.0f ? near : sin_of_large(x);
  }
};

}  // namespace tensora::cuda
