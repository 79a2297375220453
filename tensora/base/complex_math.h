#pragma once

// The functions of complex numbers that functors call, beside those of base/math.h for real ones.
// Also compiled by NVRTC.

#include "tensora/base/complex.h"
#include "tensora/base/math.h"

namespace tensora::math {

template <class T>
TENSORA_HD constexpr Complex<T> conj(Complex<T> z) {
  return {z.re, -z.im};
}
/// Of anything real, itself.
template <class T>
TENSORA_HD constexpr T conj(T x) {
  return x;
}
/// Whether the real part is not negative; false for NaN.
template <class T>
TENSORA_HD constexpr bool nonnegative(Complex<T> z) {
  return z.re >= T(0);
}
template <class T>
TENSORA_HD constexpr bool nonnegative(T x) {
  return x >= T(0);
}
template <class T>
TENSORA_HD constexpr bool isinf(T x) {
  return !isnan(x) & !isfinite(x);
}
template <class T>
TENSORA_HD constexpr bool isinf(Complex<T> z) {
  return isinf(z.re) | isinf(z.im);
}

template <class T>
TENSORA_HD inline Complex<T> abs(Complex<T> z) {
  return hypot(z.re, z.im);
}
/// z / |z|, and 0 of 0.
template <class T>
TENSORA_HD inline Complex<T> sgn(Complex<T> z) {
  const T length = hypot(z.re, z.im);
  if (length == T(0)) return T(0);
  return {z.re / length, z.im / length};
}
template <class T>
TENSORA_HD constexpr T sgn(T x) {
  return sign(x);
}

template <class T>
TENSORA_HD inline Complex<T> exp(Complex<T> z) {
  const T length = exp(z.re);
  if (z.im == T(0)) return {length, z.im};  // infinity times sin(0) would be NaN
  return {length * cos(z.im), length * sin(z.im)};
}
template <class T>
TENSORA_HD inline Complex<T> log(Complex<T> z) {
  return {log(hypot(z.re, z.im)), atan2(z.im, z.re)};
}
/// x * log(y), and 0 for x = 0.
template <class T>
TENSORA_HD inline Complex<T> xlogy(Complex<T> x, Complex<T> y) {
  const Complex<T> product = x * log(y);
  return x == Complex<T>(T(0)) && y == y ? Complex<T>(T(0)) : product;
}
/// The root with a real part that is not negative. The larger of its parts comes from a sum
/// without cancellation, the other from the product of both, im / 2.
template <class T>
TENSORA_HD inline Complex<T> sqrt(Complex<T> z) {
  if (z.re == T(0) && z.im == T(0)) return {T(0), z.im};
  const T larger = sqrt((abs(z.re) + hypot(z.re, z.im)) / T(2));
  const T smaller = abs(z.im) / (T(2) * larger);
  if (z.re >= T(0)) return {larger, copysign(smaller, z.im)};
  return {smaller, copysign(larger, z.im)};
}
template <class T>
TENSORA_HD inline Complex<T> rsqrt(Complex<T> z) {
  return Complex<T>(T(1)) / sqrt(z);
}
template <class T>
TENSORA_HD inline Complex<T> pow(Complex<T> base, Complex<T> exponent) {
  return exp(exponent * log(base));
}
template <class T>
TENSORA_HD inline Complex<T> sin(Complex<T> z) {
  return {sin(z.re) * cosh(z.im), cos(z.re) * sinh(z.im)};
}
template <class T>
TENSORA_HD inline Complex<T> cos(Complex<T> z) {
  return {cos(z.re) * cosh(z.im), -sin(z.re) * sinh(z.im)};
}
/// By tan(im) and sinh(re), which stay exact where cosh(re) is about 1; beyond 20 the real part is
/// a 1 that the other terms no longer reach.
template <class T>
TENSORA_HD inline Complex<T> tanh(Complex<T> z) {
  if (abs(z.re) > T(20)) {
    const T decay = exp(T(-2) * abs(z.re));
    return {copysign(T(1), z.re), T(4) * sin(z.im) * cos(z.im) * decay};
  }
  const T t = tan(z.im), s = sinh(z.re), beta = T(1) + t * t;
  const T rho = sqrt(T(1) + s * s), denominator = T(1) + beta * s * s;
  return {beta * rho * s / denominator, t / denominator};
}

}  // namespace tensora::math
