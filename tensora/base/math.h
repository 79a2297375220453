#pragma once

// The elementary functions that functors call, for every arithmetic value type. On the host the
// declarations below let the compiler use the C library's vector versions (libmvec) inside loops;
// in CUDA the same names are the device functions.

#include "tensora/base/host_device.h"

#if !defined(__CUDACC__)
extern "C" {
// Note [Vector maths]
// glibc ships SIMD versions of these for x86; the pragma tells the compiler so without asking for
// -ffast-math, which would break NaN and infinity. Only an unconditional call is vectorised, so
// functors compute first and `select` afterwards.
#if defined(__x86_64__)
#define TENSORA_SIMD _Pragma("omp declare simd notinbranch")
#else
#define TENSORA_SIMD
#endif
#define TENSORA_VECTOR_MATH(fn)            \
  TENSORA_SIMD double fn(double) noexcept; \
  TENSORA_SIMD float fn##f(float) noexcept;
TENSORA_VECTOR_MATH(exp)
TENSORA_VECTOR_MATH(exp2)
TENSORA_VECTOR_MATH(expm1)
TENSORA_VECTOR_MATH(log)
TENSORA_VECTOR_MATH(log2)
TENSORA_VECTOR_MATH(log10)
TENSORA_VECTOR_MATH(log1p)
TENSORA_VECTOR_MATH(sin)
TENSORA_VECTOR_MATH(cos)
TENSORA_VECTOR_MATH(tan)
TENSORA_VECTOR_MATH(asin)
TENSORA_VECTOR_MATH(acos)
TENSORA_VECTOR_MATH(atan)
TENSORA_VECTOR_MATH(sinh)
TENSORA_VECTOR_MATH(cosh)
TENSORA_VECTOR_MATH(tanh)
TENSORA_VECTOR_MATH(asinh)
TENSORA_VECTOR_MATH(acosh)
TENSORA_VECTOR_MATH(atanh)
TENSORA_VECTOR_MATH(erf)
TENSORA_VECTOR_MATH(erfc)
#undef TENSORA_VECTOR_MATH
TENSORA_SIMD double pow(double, double) noexcept;
TENSORA_SIMD float powf(float, float) noexcept;
TENSORA_SIMD double atan2(double, double) noexcept;
TENSORA_SIMD float atan2f(float, float) noexcept;
TENSORA_SIMD double hypot(double, double) noexcept;
TENSORA_SIMD float hypotf(float, float) noexcept;
#undef TENSORA_SIMD

// The compiler has instructions for these, or they have no vector version.
double sqrt(double) noexcept;
float sqrtf(float) noexcept;
double fabs(double) noexcept;
float fabsf(float) noexcept;
double floor(double) noexcept;
float floorf(float) noexcept;
double ceil(double) noexcept;
float ceilf(float) noexcept;
double trunc(double) noexcept;
float truncf(float) noexcept;
double rint(double) noexcept;
float rintf(float) noexcept;
double copysign(double, double) noexcept;
float copysignf(float, float) noexcept;
double fmod(double, double) noexcept;
float fmodf(float, float) noexcept;
double fma(double, double, double) noexcept;
double lgamma_r(double, int*) noexcept;
float lgammaf_r(float, int*) noexcept;
}
#endif

namespace tensora::math {

#define TENSORA_MATH_FUNCTION(fn)                            \
  TENSORA_HD inline float fn(float x) { return ::fn##f(x); } \
  TENSORA_HD inline double fn(double x) { return ::fn(x); }
TENSORA_MATH_FUNCTION(exp)
TENSORA_MATH_FUNCTION(exp2)
TENSORA_MATH_FUNCTION(expm1)
TENSORA_MATH_FUNCTION(log)
TENSORA_MATH_FUNCTION(log2)
TENSORA_MATH_FUNCTION(log10)
TENSORA_MATH_FUNCTION(log1p)
TENSORA_MATH_FUNCTION(sin)
TENSORA_MATH_FUNCTION(cos)
TENSORA_MATH_FUNCTION(tan)
TENSORA_MATH_FUNCTION(asin)
TENSORA_MATH_FUNCTION(acos)
TENSORA_MATH_FUNCTION(atan)
TENSORA_MATH_FUNCTION(sinh)
TENSORA_MATH_FUNCTION(cosh)
TENSORA_MATH_FUNCTION(asinh)
TENSORA_MATH_FUNCTION(acosh)
TENSORA_MATH_FUNCTION(atanh)
TENSORA_MATH_FUNCTION(erf)
TENSORA_MATH_FUNCTION(erfc)
TENSORA_MATH_FUNCTION(sqrt)
TENSORA_MATH_FUNCTION(floor)
TENSORA_MATH_FUNCTION(ceil)
TENSORA_MATH_FUNCTION(trunc)
TENSORA_MATH_FUNCTION(rint)
#undef TENSORA_MATH_FUNCTION

/// True for integer types; bool is computed as int.
template <class T>
concept Integer = T(1) / T(2) == T(0);
template <class T>
concept Floating = T(1) / T(2) != T(0);

/// `condition ? yes : no`, written as a function so that tensors can have it too.
template <class T>
TENSORA_HD constexpr T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}
/// `x * factor`; for tensors it is `x` itself when the factor is 1.
template <class T, class Factor>
TENSORA_HD constexpr T scaled(T x, Factor factor) {
  return x * factor.template to<T>();
}
/// Zero of the type (and, for tensors, the shape) of `x`.
template <class T>
TENSORA_HD constexpr T zero_like(T) {
  return T(0);
}

// ---- rounding and signs ----------------------------------------------------------------------

template <Integer T>
TENSORA_HD constexpr T floor(T x) {
  return x;
}
template <Integer T>
TENSORA_HD constexpr T ceil(T x) {
  return x;
}
template <Integer T>
TENSORA_HD constexpr T trunc(T x) {
  return x;
}
/// To the nearest integer, halves to the even one.
template <Integer T>
TENSORA_HD constexpr T rint(T x) {
  return x;
}
TENSORA_HD inline float abs(float x) { return ::fabsf(x); }
TENSORA_HD inline double abs(double x) { return ::fabs(x); }
template <Integer T>
TENSORA_HD constexpr T abs(T x) {
  return x < 0 ? -x : x;
}
/// -1, 0 or 1; 0 for NaN.
template <class T>
TENSORA_HD constexpr T sign(T x) {
  return T(x > T(0)) - T(x < T(0));
}
TENSORA_HD inline float copysign(float x, float y) { return ::copysignf(x, y); }
TENSORA_HD inline double copysign(double x, double y) { return ::copysign(x, y); }

template <class T>
TENSORA_HD constexpr bool isnan(T x) {
  return x != x;
}
/// Neither infinite nor NaN: those minus themselves are NaN.
template <class T>
TENSORA_HD constexpr bool isfinite(T x) {
  return x - x == T(0);
}

/// NaN if either is.
template <class T>
TENSORA_HD constexpr T maximum(T a, T b) {
  const T larger = a > b ? a : b;  // b if that is NaN
  return isnan(a) ? a : larger;
}
template <class T>
TENSORA_HD constexpr T minimum(T a, T b) {
  const T smaller = a < b ? a : b;
  return isnan(a) ? a : smaller;
}
/// NaN passes, as x; the bounds must not be NaN.
template <class T>
TENSORA_HD constexpr T clamp(T x, T low, T high) {
  const T raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// ---- division --------------------------------------------------------------------------------

// Note [Integer division]
// The processor traps on x / 0 and on the quotient that overflows, INT_MIN / -1, and a trap would
// end the process. The overflow wraps around. The CPU's loop throws before it computes x / 0; on a
// GPU, where an error would require a synchronization, x / 0 is 0 and the remainder is x.
template <Integer T>
TENSORA_HD constexpr T div_trunc(T a, T b) {
  const T divisor = b == T(0) || b == T(-1) ? T(1) : b;
  const T quotient = a / divisor;
  return b == T(0) ? T(0) : b == T(-1) ? -quotient : quotient;
}
template <Floating T>
TENSORA_HD inline T div_trunc(T a, T b) {
  return trunc(a / b);
}

TENSORA_HD inline float fmod(float a, float b) { return ::fmodf(a, b); }
TENSORA_HD inline double fmod(double a, double b) { return ::fmod(a, b); }
/// The remainder with the sign of `a`; a for b = 0.
template <Integer T>
TENSORA_HD constexpr T fmod(T a, T b) {
  return a - div_trunc(a, b) * b;
}
/// The remainder with the sign of `b`.
template <class T>
TENSORA_HD inline T remainder(T a, T b) {
  const T rest = fmod(a, b);
  return select((rest != T(0)) & ((rest < T(0)) != (b < T(0))), rest + b, rest);
}

template <Integer T>
TENSORA_HD constexpr T div_floor(T a, T b) {
  const T quotient = div_trunc(a, b);
  const T rest = a - quotient * b;
  const bool below = (rest != T(0)) & ((rest < T(0)) != (b < T(0))) & (b != T(0));
  return quotient - T(below);
}
/// Consistent with `remainder`, as in Python: a = b * div_floor(a, b) + remainder(a, b).
template <Floating T>
TENSORA_HD inline T div_floor(T a, T b) {
  const T rest = fmod(a, b);
  const bool below = (rest != T(0)) & ((rest < T(0)) != (b < T(0)));
  const T exact = (a - rest) / b - T(below);
  const T rounded = floor(exact);
  const T nearest = rounded + T(exact - rounded > T(0.5));
  const T result = select(exact != T(0), nearest, copysign(T(0), a / b));
  return select(b == T(0), a / b, result);
}

// ---- powers ----------------------------------------------------------------------------------

TENSORA_HD inline float pow(float x, float y) { return ::powf(x, y); }
TENSORA_HD inline double pow(double x, double y) { return ::pow(x, y); }
/// x * y + z, rounded once.
TENSORA_HD inline double fma(double x, double y, double z) { return ::fma(x, y, z); }
/// Wraps around on overflow; a negative exponent gives the reciprocal truncated to an integer.
template <Integer T>
TENSORA_HD constexpr T pow(T x, T y) {
  if (y < T(0)) return x == T(1) ? T(1) : x == T(-1) ? (y % T(2) ? T(-1) : T(1)) : T(0);
  T result = 1;
  for (T factor = x; y > T(0); y >>= 1, factor *= factor)
    if (y & T(1)) result *= factor;
  return result;
}
TENSORA_HD inline float atan2(float y, float x) { return ::atan2f(y, x); }
TENSORA_HD inline double atan2(double y, double x) { return ::atan2(y, x); }
TENSORA_HD inline float hypot(float x, float y) { return ::hypotf(x, y); }
TENSORA_HD inline double hypot(double x, double y) { return ::hypot(x, y); }
TENSORA_HD inline float rsqrt(float x) { return 1.0f / sqrt(x); }
TENSORA_HD inline double rsqrt(double x) { return 1.0 / sqrt(x); }
/// log(1 + x) for 0 <= x <= 1: faster than log1p and as accurate. The quotient restores what 1 + x
/// rounds off.
template <class T>
TENSORA_HD inline T log1p_of_fraction(T x) {
  const T sum = T(1) + x;
  return log(sum) + (x - (sum - T(1))) / sum;
}
/// x * log(y), and 0 for x = 0.
template <class T>
TENSORA_HD inline T xlogy(T x, T y) {
  const T product = x * log(y);
  return select((x == T(0)) & (y == y), T(0), product);
}

/// 1 / x for x > 1, to 1 ulp: on a GPU one instruction, where a correctly rounded division takes
/// ten.
TENSORA_HD inline float quick_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1.0f / x;
#endif
}

/// To 2.5 ulp and faster than the C library's: near zero a polynomial (of least relative error on
/// [0, 0.55]), beyond it 1 - 2 / (exp(2 x) + 1), where nothing cancels.
TENSORA_HD inline float tanh(float x) {
  const float magnitude = abs(x), square = x * x;
  const float cubic =
      ((0.016437582f * square - 0.052671814f) * square + 0.13320725f) * square - 0.33332947f;
  const float near = magnitude + magnitude * square * cubic;
  const float far = 1.0f - 2.0f * quick_reciprocal(exp(magnitude + magnitude) + 1.0f);
  return copysign(select(magnitude < 0.55f, near, far), x);
}
TENSORA_HD inline double tanh(double x) { return ::tanh(x); }
template <class T>
TENSORA_HD inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

}  // namespace tensora::math

namespace tensora::functors {
using namespace tensora::math;
}
