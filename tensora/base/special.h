#pragma once

// Special functions that neither the C library's vector part nor CUDA offers in one form. Written
// without branches where possible, so that they vectorise.

#include "tensora/base/math.h"

namespace tensora::math {

#if defined(__CUDACC__)
TENSORA_HD inline float lgamma(float x) { return ::lgammaf(x); }
TENSORA_HD inline double lgamma(double x) { return ::lgamma(x); }
#else
// The plain functions write a global sign, which threads would race for.
inline float lgamma(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}
inline double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
#endif

/// The inverse of erf: Winitzki's estimate, good to three digits, improved by Halley's method,
/// which triples the digits at each step.
template <Floating T>
TENSORA_HD inline T erfinv(T x) {
  const T magnitude = abs(x);
  const T rest = T(1) - magnitude;
  constexpr T shape = T(0.147), pi = T(3.14159265358979324);
  constexpr T slope_at_0 = T(1.1283791670955126);
  const T logarithm = log(rest * (T(1) + magnitude));
  const T half = T(2) / (pi * shape) + logarithm * T(0.5);
  T y = sqrt(sqrt(half * half - logarithm / shape) - half);
  for (int step = 0; step < (sizeof(T) == 4 ? 1 : 2); ++step) {
    // Towards 1, erfc keeps the digits that erf rounds away.
    const T low = erf(y) - magnitude, high = rest - erfc(y);
    const T error = select(magnitude < T(0.5), low, high);
    const T newton = error / (slope_at_0 * exp(-y * y));
    y -= newton / (T(1) + y * newton);
  }
  const T infinite = T(1) / (rest - rest);
  const T result = select(rest == T(0), infinite, y);
  return copysign(select(magnitude == T(0), T(0), result), x);
}

/// The derivative of lgamma. Poles give NaN, and 0 gives -inf (+inf for -0).
template <Floating T>
TENSORA_HD inline T digamma(T x) {
  constexpr T pi = T(3.14159265358979324);
  const bool reflect = x < T(0.5);
  const T z = select(reflect, T(1) - x, x);
  // The recurrence leads to an argument above ten, where the asymptotic series is accurate enough.
  T shift = 0;
  for (int k = 0; k < 10; ++k) shift += T(1) / (z + T(k));
  const T far = z + T(10);
  const T q = T(1) / (far * far);
  const T series =
      q *
      (T(1.0 / 12) -
       q * (T(1.0 / 120) -
            q * (T(1.0 / 252) - q * (T(1.0 / 240) - q * (T(1.0 / 132) - q * T(691.0 / 32760))))));
  const T direct = log(far) - T(0.5) / far - series - shift;
  const T whole = rint(x);
  const T mirrored = direct - pi / tan(pi * (x - whole));
  const T result = select(reflect, mirrored, direct);
  const T at_zero = T(-1) / x;
  return select(x == T(0), at_zero, select(reflect & (x == whole), whole / T(0) * T(0), result));
}

/// The Hurwitz zeta function for s > 1, x > 0, by the Euler-Maclaurin formula after ten terms.
template <Floating T>
TENSORA_HD inline T hurwitz_zeta(T s, T x) {
  T sum = 0;
  for (int k = 0; k < 10; ++k) sum += pow(x + T(k), -s);
  const T far = x + T(10);
  T power = pow(far, -s);
  sum += pow(far, T(1) - s) / (s - T(1)) + power * T(0.5);  // 0 at infinity
  // B(2j) / (2j)!
  constexpr T factors[] = {T(1.0 / 12),          T(-1.0 / 720),
                           T(1.0 / 30240),       T(-1.0 / 1209600),
                           T(1.0 / 47900160),    T(-691.0 / 1307674368000),
                           T(1.0 / 74724249600), T(-3617.0 / 10670622842880000)};
  T rising = s;
  power /= far;
  for (int j = 0; j < 8; ++j) {
    sum += factors[j] * rising * power;
    rising *= (s + T(2 * j + 1)) * (s + T(2 * j + 2));
    power /= far * far;
  }
  return sum;
}

/// The n-th derivative of digamma.
template <Floating T>
TENSORA_HD inline T polygamma(int n, T x) {
  if (n == 0) return digamma(x);
  const T s = T(n + 1);
  T factor = n % 2 ? T(1) : T(-1);
  for (int k = 2; k <= n; ++k) factor *= T(k);
  if (x > T(0)) return factor * hurwitz_zeta(s, x);
  // The terms up to the last negative one are, mirrored, a difference of two series.
  const T part = x - floor(x), rest = (floor(x) + T(1)) - x;  // 1 - part, without rounding
  const T mirrored = hurwitz_zeta(s, rest) - hurwitz_zeta(s, T(1) - x);
  return factor * (hurwitz_zeta(s, part) + (n % 2 ? mirrored : -mirrored));
}

}  // namespace tensora::math
