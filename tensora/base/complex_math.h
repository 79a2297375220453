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
/// z times a number that a functor has. Part by part where that is real: 0 times infinity is NaN.
template <class T, class Factor>
TENSORA_HD constexpr Complex<T> scaled(Complex<T> z, Factor factor) {
  const Complex<T> number = factor.template to<Complex<T>>();
  if (number.im == T(0)) return {z.re * number.re, z.im * number.re};
  return z * number;
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
/// 1 - z with the sign of a zero imaginary part kept opposite to that of z, which 1 + 0i minus z
/// would lose: it tells the sides of a branch cut apart.
template <class T>
TENSORA_HD constexpr Complex<T> one_minus(Complex<T> z) {
  return {T(1) - z.re, -z.im};
}
template <class T>
TENSORA_HD constexpr T one_minus(T x) {
  return T(1) - x;
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
  T length = hypot(z.re, z.im);
  if (length == T(0)) return T(0);
  if (isinf(length)) {  // the length of a finite number may overflow
    z = {z.re / T(2), z.im / T(2)};
    length = hypot(z.re, z.im);
  }
  return {z.re / length, z.im / length};
}
template <class T>
TENSORA_HD constexpr T sgn(T x) {
  return sign(x);
}

// Note [Complex functions]
// Special values follow Annex G of the C standard, as NumPy and PyTorch do: signed zeros choose the
// side of a branch cut, and infinities give limits where there are any. Each part of a result is
// accurate on its own where its formula allows it. complex64 is computed in double where float
// would need steps against cancellation, overflow or underflow, which double then does not.
// Long functions stay calls: inlined into every formula that uses them, they doubled its size.
// The inverse functions are those of Hull, Fairgrieve and Tang ("Implementing the complex arcsine
// and arccosine functions using exception handling", 1997), as FreeBSD's C library has them.

/// Beyond this, exp overflows or almost does.
template <class T>
inline constexpr T kLargeExponent = sizeof(T) == 4 ? T(88) : T(709);
inline constexpr double kComplexHalfPi = 1.57079632679489662, kComplexLn2 = 0.69314718055994531;
inline constexpr double kDoubleEpsilon = 0x1p-52, kDoubleMax = 0x1.fffffffffffffp1023;

TENSORA_HD constexpr Complex<double> widened(Complex<float> z) { return {z.re, z.im}; }
TENSORA_HD constexpr Complex<float> narrowed(Complex<double> z) {
  return {static_cast<float>(z.re), static_cast<float>(z.im)};
}
/// Real and imaginary part exchanged: i times the conjugate, and exact.
TENSORA_HD constexpr Complex<double> swapped(Complex<double> z) { return {z.im, z.re}; }

/// exp(x) * scale * factor for a large x, without an overflow or an underflow in between.
template <class T>
TENSORA_HD inline T large_exp_times(T x, T scale, T factor) {
  const T root = exp(x / T(2));
  return root * scale * factor * root;
}
/// exp(x) * factor, likewise.
template <class T>
TENSORA_HD inline T exp_times(T x, T factor) {
  if (x <= kLargeExponent<T>) return exp(x) * factor;
  return large_exp_times(x, T(1), factor);
}
/// cosh(x) * factor, likewise.
template <class T>
TENSORA_HD inline T cosh_times(T x, T factor) {
  if (abs(x) <= kLargeExponent<T>) return cosh(x) * factor;
  return large_exp_times(abs(x), T(0.5), factor);
}
template <class T>
TENSORA_HD inline T sinh_times(T x, T factor) {
  if (abs(x) <= kLargeExponent<T>) return sinh(x) * factor;
  return large_exp_times(abs(x), copysign(T(0.5), x), factor);
}

template <class T>
TENSORA_HD inline Complex<T> exp(Complex<T> z) {
  if (z.im == T(0)) return {exp(z.re), z.im};  // infinity times sin(0) would be NaN
  if (isinf(z.re) && !isfinite(z.im)) {
    if (z.re < T(0)) return {T(0), copysign(T(0), z.im)};
    return {z.re, z.im - z.im};
  }
  return {exp_times(z.re, cos(z.im)), exp_times(z.re, sin(z.im))};
}
template <class T>
TENSORA_HD inline Complex<T> sinh(Complex<T> z) {
  if (z.im == T(0)) return {sinh(z.re), z.im};
  if (!isfinite(z.im) && z.re == T(0)) return {z.re, z.im - z.im};
  if (!isfinite(z.im) && isinf(z.re)) return {abs(z.re), z.im - z.im};
  if (z.re == T(0)) return {z.re * cos(z.im), sin(z.im)};
  return {sinh_times(z.re, cos(z.im)), cosh_times(z.re, sin(z.im))};
}
template <class T>
TENSORA_HD inline Complex<T> cosh(Complex<T> z) {
  if (z.im == T(0)) {
    const T sign_of_zero = isnan(z.re) ? T(1) : copysign(T(1), z.re);
    return {cosh(z.re), sign_of_zero * z.im};
  }
  if (!isfinite(z.im)) {
    if (z.re == T(0)) return {z.im - z.im, T(0)};
    if (isinf(z.re)) return {abs(z.re), z.im - z.im};
  }
  if (z.re == T(0)) return {cos(z.im), z.re * sin(z.im)};
  return {cosh_times(z.re, cos(z.im)), sinh_times(z.re, sin(z.im))};
}
template <class T>
TENSORA_HD inline Complex<T> sin(Complex<T> z) {
  const Complex<T> swap = sinh(Complex<T>(z.im, z.re));
  return {swap.im, swap.re};
}
template <class T>
TENSORA_HD inline Complex<T> cos(Complex<T> z) {
  return cosh(Complex<T>(-z.im, z.re));
}
/// By tan(im) and sinh(re), which stay exact where cosh(re) is about 1; beyond 20 the real part is
/// a 1 that the other terms no longer reach.
template <class T>
TENSORA_HD inline Complex<T> tanh(Complex<T> z) {
  if (z.im == T(0)) return {tanh(z.re), z.im};
  if (isinf(z.re) && !isfinite(z.im)) return {copysign(T(1), z.re), copysign(T(0), z.im)};
  if (z.re == T(0)) return {z.re, tan(z.im)};
  if (!isfinite(z.im)) return {z.im - z.im, z.im - z.im};
  if (abs(z.re) > T(20)) {
    const T decay = exp(T(-2) * abs(z.re));
    return {copysign(T(1), z.re), T(4) * sin(z.im) * cos(z.im) * decay};
  }
  const T t = tan(z.im), s = sinh(z.re), beta = T(1) + t * t;
  const T rho = sqrt(T(1) + s * s), denominator = T(1) + beta * s * s;
  return {beta * rho * s / denominator, t / denominator};
}
/// exp(z) - 1.
[[gnu::noinline]] TENSORA_HD inline Complex<double> expm1(Complex<double> z) {
  if (!isfinite(z.re) || !isfinite(z.im) || z.re > kLargeExponent<double>) {
    const Complex<double> power = exp(z);
    return {power.re - 1, power.im};
  }
  const double half = sin(z.im / 2);
  return {expm1(z.re) * cos(z.im) - 2 * half * half, exp(z.re) * sin(z.im)};
}
TENSORA_HD inline Complex<float> expm1(Complex<float> z) { return narrowed(expm1(widened(z))); }
/// By the power of exp that cannot overflow.
template <class T>
TENSORA_HD inline Complex<T> sigmoid(Complex<T> z) {
  const Complex<T> one = T(1);
  if (z.re >= T(0)) return one / (one + exp(-z));
  const Complex<T> power = exp(z);
  return power / (one + power);
}

// ---- logarithms ------------------------------------------------------------------------------

/// A sum or a product with what its rounding took away.
struct ExactPair {
  double value, rest;
};
TENSORA_HD inline ExactPair exact_sum(double a, double b) {
  const double sum = a + b, second = sum - a;
  return {sum, (a - (sum - second)) + (b - second)};
}
TENSORA_HD inline ExactPair exact_square(double a) {
  const double square = a * a;
  return {square, fma(a, a, -square)};
}
/// linear + x^2 + y^2, in which all digits may cancel.
TENSORA_HD inline double exact_sum_of_squares(double linear, double x, double y) {
  const ExactPair xx = exact_square(x), yy = exact_square(y);
  const ExactPair first = exact_sum(linear, xx.value), sum = exact_sum(first.value, yy.value);
  return sum.value + (first.rest + sum.rest + xx.rest + yy.rest);
}
/// Whether a number with these parts may have a length near 1, where its logarithm is near 0.
TENSORA_HD inline bool near_unit_circle(double x, double y) {
  const double larger = abs(x) < abs(y) ? abs(y) : abs(x);
  return larger > 0.5 && larger < 1.75;
}
/// log(|z|) for a number whose parts may be scaled without loss.
[[gnu::noinline]] TENSORA_HD inline double log_length(double x, double y) {
  if (isinf(x) || isinf(y)) return hypot(x, y);
  if (near_unit_circle(x, y)) return log1p(exact_sum_of_squares(-1, x, y)) / 2;
  const double larger = abs(x) < abs(y) ? abs(y) : abs(x);
  if (larger > 0x1p1022) return log(hypot(x / 2, y / 2)) + kComplexLn2;
  if (larger < 0x1p-960) return log(hypot(x * 0x1p128, y * 0x1p128)) - 128 * kComplexLn2;
  return log(hypot(x, y));
}
[[gnu::noinline]] TENSORA_HD inline float log_length(float x, float y) {
  if (isinf(x) || isinf(y)) return hypot(x, y);
  // In double the squares are exact and the larger one minus 1 is, too.
  const double a = x, b = y, larger = abs(a) < abs(b) ? b : a, smaller = abs(a) < abs(b) ? a : b;
  const double log_of_square = near_unit_circle(a, b)
                                   ? log1p((larger - 1) * (larger + 1) + smaller * smaller)
                                   : log(a * a + b * b);
  return static_cast<float>(log_of_square / 2);
}
template <class T>
TENSORA_HD inline Complex<T> log(Complex<T> z) {
  return {log_length(z.re, z.im), atan2(z.im, z.re)};
}
/// log(1 + z).
[[gnu::noinline]] TENSORA_HD inline Complex<double> log1p(Complex<double> z) {
  const double right = 1 + z.re, angle = atan2(z.im, right);
  if (near_unit_circle(right, z.im) && isfinite(z.re))
    return {log1p(exact_sum_of_squares(2 * z.re, z.re, z.im)) / 2, angle};
  return {log_length(right, z.im), angle};
}
TENSORA_HD inline Complex<float> log1p(Complex<float> z) { return narrowed(log1p(widened(z))); }
/// x * log(y), and 0 for x = 0.
template <class T>
TENSORA_HD inline Complex<T> xlogy(Complex<T> x, Complex<T> y) {
  const Complex<T> product = x * log(y);
  return x == Complex<T>(T(0)) && y == y ? Complex<T>(T(0)) : product;
}

// ---- roots and powers ------------------------------------------------------------------------

/// The root with a real part that is not negative. The larger of its parts comes from a sum
/// without cancellation, the other from the product of both, im / 2.
[[gnu::noinline]] TENSORA_HD inline Complex<double> sqrt(Complex<double> z) {
  if (z.re == 0 && z.im == 0) return {0.0, z.im};
  if (isinf(z.im)) return {abs(z.im), z.im};
  if (isinf(z.re)) {
    const double none = z.im - z.im;  // 0, or NaN
    if (z.re < 0) return {abs(none), copysign(z.re, z.im)};
    return {z.re, copysign(none, z.im)};
  }
  // Scaled by 4 or by 2^108, so that no sum overflows and no part of it is subnormal.
  const double most = maximum(abs(z.re), abs(z.im));
  const bool huge = most > kDoubleMax / 4, tiny = most < 0x1p-900;
  const double scale = huge ? 0.25 : tiny ? 0x1p108 : 1, back = huge ? 2 : tiny ? 0x1p-54 : 1;
  const double width = abs(z.re) * scale, height = abs(z.im) * scale;
  const double larger = sqrt((width + hypot(width, height)) / 2);
  const double smaller = height / (2 * larger) * back;
  if (z.re >= 0) return {larger * back, copysign(smaller, z.im)};
  return {smaller, copysign(larger * back, z.im)};
}
TENSORA_HD inline Complex<float> sqrt(Complex<float> z) { return narrowed(sqrt(widened(z))); }
template <class T>
TENSORA_HD inline Complex<T> rsqrt(Complex<T> z) {
  return Complex<T>(T(1)) / sqrt(z);
}
TENSORA_HD inline Complex<double> pow(Complex<double> base, Complex<double> exponent) {
  return exp(exponent * log(base));
}
TENSORA_HD inline Complex<float> pow(Complex<float> base, Complex<float> exponent) {
  return narrowed(pow(widened(base), widened(exponent)));
}

// ---- inverse functions -----------------------------------------------------------------------

/// log(z) of a finite or infinite number far from the unit circle.
TENSORA_HD inline Complex<double> log_of_large(Complex<double> z) {
  return {log_length(z.re, z.im), atan2(z.im, z.re)};
}
/// (hypot(a, b) - b) / 2 without cancellation.
TENSORA_HD inline double half_excess(double a, double b, double length) {
  if (b < 0) return (length - b) / 2;
  if (b == 0) return a / 2;
  return a * a / (length + b) / 2;
}
/// The parts of asinh(x + iy) for x, y >= 0: the real part, and the imaginary one as
/// atan2(opposite, adjacent).
struct InverseParts {
  double real, opposite, adjacent;
};
TENSORA_HD inline double inverse_real_part(double x, double y, double r, double s, double a) {
  if (a >= 10) return log(a + sqrt(a * a - 1));
  if (y == 1 && x < kDoubleEpsilon * kDoubleEpsilon / 128) return sqrt(x);
  if (x >= kDoubleEpsilon * abs(y - 1)) {
    const double excess = half_excess(x, 1 + y, r) + half_excess(x, 1 - y, s);  // a - 1
    return log1p(excess + sqrt(excess * (a + 1)));
  }
  if (y < 1) return x / sqrt((1 - y) * (1 + y));
  return log1p((y - 1) + sqrt((y - 1) * (y + 1)));
}
[[gnu::noinline]] TENSORA_HD inline InverseParts inverse_parts(double x, double y) {
  const double r = hypot(x, y + 1), s = hypot(x, y - 1);
  const double mean = (r + s) / 2, a = mean < 1 ? 1 : mean;
  const double real = inverse_real_part(x, y, r, s, a);
  constexpr double kLift = 2 / kDoubleEpsilon;  // out of the subnormal numbers
  if (y < 0x1p-509) return {real, y * kLift, a * kLift};
  if (y == 1 && x < kDoubleEpsilon / 128) return {real, y, sqrt(x) * sqrt((a + y) / 2)};
  if (x >= kDoubleEpsilon * abs(y - 1)) {
    const double excess = half_excess(x, y + 1, r) + half_excess(x, y - 1, s);  // a - y
    return {real, y, sqrt(excess * (a + y))};
  }
  if (y > 1) return {real, y * (kLift * kLift), x * (kLift * kLift) * y / sqrt((y + 1) * (y - 1))};
  return {real, y, sqrt((1 - y) * (1 + y))};
}
/// Whether asinh, acos and atanh are their asymptotic or their linear formula.
TENSORA_HD inline bool is_large(Complex<double> z) {
  return abs(z.re) > 1 / kDoubleEpsilon || abs(z.im) > 1 / kDoubleEpsilon;
}
TENSORA_HD inline bool is_small(Complex<double> z) { return abs(z.re) < 9e-9 && abs(z.im) < 9e-9; }

[[gnu::noinline]] TENSORA_HD inline Complex<double> asinh(Complex<double> z) {
  if (isnan(z.re) || isnan(z.im)) {
    if (isinf(z.re)) return z;
    if (isinf(z.im)) return {abs(z.im), z.re};
    if (z.im == 0) return z;
    return {z.re + z.im, z.re + z.im};
  }
  if (is_large(z)) {
    const Complex<double> logarithm = log_of_large({abs(z.re), abs(z.im)});
    return {copysign(logarithm.re + kComplexLn2, z.re), copysign(logarithm.im, z.im)};
  }
  if (is_small(z)) return z;
  const InverseParts parts = inverse_parts(abs(z.re), abs(z.im));
  return {copysign(parts.real, z.re), copysign(atan2(parts.opposite, parts.adjacent), z.im)};
}
[[gnu::noinline]] TENSORA_HD inline Complex<double> asin(Complex<double> z) {
  return swapped(asinh(swapped(z)));
}
[[gnu::noinline]] TENSORA_HD inline Complex<double> acos(Complex<double> z) {
  if (isnan(z.re) || isnan(z.im)) {
    if (isinf(z.re)) return {z.im, -abs(z.re)};
    if (isinf(z.im)) return {z.re, -z.im};
    if (z.re == 0) return {kComplexHalfPi, z.im};
    return {z.re + z.im, z.re + z.im};
  }
  if (is_large(z)) {
    const Complex<double> logarithm = log_of_large(z);
    return {abs(logarithm.im), copysign(logarithm.re + kComplexLn2, -z.im)};
  }
  if (z.re == 1 && z.im == 0) return {0.0, -z.im};
  if (is_small(z)) return {kComplexHalfPi - z.re, -z.im};
  const InverseParts parts = inverse_parts(abs(z.im), abs(z.re));
  return {atan2(parts.adjacent, copysign(parts.opposite, z.re)), copysign(parts.real, -z.im)};
}
[[gnu::noinline]] TENSORA_HD inline Complex<double> acosh(Complex<double> z) {
  const Complex<double> angle = acos(z);
  if (isnan(angle.re)) return {abs(angle.im), angle.re};
  if (isnan(angle.im)) return {angle.im, z.re == 0 ? kComplexHalfPi : angle.im};
  return {abs(angle.im), copysign(angle.re, z.im)};
}
/// The real part of 1 / z.
TENSORA_HD inline double real_of_reciprocal(Complex<double> z) {
  if (isinf(z.re) || isinf(z.im)) return copysign(0.0, z.re);
  const double most = maximum(abs(z.re), abs(z.im)), x = z.re / most, y = z.im / most;
  return x / (x * x + y * y) / most;
}
[[gnu::noinline]] TENSORA_HD inline Complex<double> atanh(Complex<double> z) {
  const double width = abs(z.re), height = abs(z.im);
  if (z.im == 0 && width <= 1) return {atanh(z.re), z.im};
  if (z.re == 0) return {z.re, atan(z.im)};
  if (isnan(z.re) || isnan(z.im)) {
    if (isinf(z.re)) return {copysign(0.0, z.re), z.im};
    if (isinf(z.im)) return {copysign(0.0, z.re), copysign(kComplexHalfPi, z.im)};
    return {z.re + z.im, z.re + z.im};
  }
  if (is_large(z)) return {real_of_reciprocal(z), copysign(kComplexHalfPi, z.im)};
  if (is_small(z)) return z;
  const double distance = width - 1, square = height < 0x1p-511 ? 0 : height * height;
  const double real = distance == 0 && height < kDoubleEpsilon
                          ? (kComplexLn2 - log(height)) / 2
                          : log1p(4 * width / (distance * distance + square)) / 4;
  const double twice =
      distance == 0 ? atan2(2.0, -height) : atan2(2 * height, -distance * (1 + width) - square);
  return {copysign(real, z.re), copysign(twice / 2, z.im)};
}
TENSORA_HD inline Complex<float> asin(Complex<float> z) { return narrowed(asin(widened(z))); }
TENSORA_HD inline Complex<float> acos(Complex<float> z) { return narrowed(acos(widened(z))); }
TENSORA_HD inline Complex<float> acosh(Complex<float> z) { return narrowed(acosh(widened(z))); }
TENSORA_HD inline Complex<float> atanh(Complex<float> z) { return narrowed(atanh(widened(z))); }

}  // namespace tensora::math
