#pragma once

// A number with more digits than double, for which the functors' formulas compile: what they give
// for it is the exact value that the ulp mode measures against.

#include <cmath>
#include <limits>

namespace tensora::suite {

/// A long double that is a class, so that the formulas find its functions wherever they are
/// declared.
struct Wide {
  long double value = 0;

  constexpr Wide() = default;
  template <class T>
  constexpr explicit(false) Wide(T number) : value(static_cast<long double>(number)) {}
  constexpr explicit operator double() const { return static_cast<double>(value); }

  constexpr Wide operator-() const { return -value; }
  constexpr Wide& operator+=(Wide b) { return *this = value + b.value; }
  constexpr Wide& operator-=(Wide b) { return *this = value - b.value; }
  constexpr Wide& operator*=(Wide b) { return *this = value * b.value; }
  constexpr Wide& operator/=(Wide b) { return *this = value / b.value; }
  friend constexpr Wide operator+(Wide a, Wide b) { return a.value + b.value; }
  friend constexpr Wide operator-(Wide a, Wide b) { return a.value - b.value; }
  friend constexpr Wide operator*(Wide a, Wide b) { return a.value * b.value; }
  friend constexpr Wide operator/(Wide a, Wide b) { return a.value / b.value; }
  friend constexpr bool operator==(Wide a, Wide b) { return a.value == b.value; }
  friend constexpr bool operator<(Wide a, Wide b) { return a.value < b.value; }
  friend constexpr bool operator>(Wide a, Wide b) { return a.value > b.value; }
  friend constexpr bool operator<=(Wide a, Wide b) { return a.value <= b.value; }
  friend constexpr bool operator>=(Wide a, Wide b) { return a.value >= b.value; }

  friend Wide exp(Wide x) { return std::exp(x.value); }
  friend Wide exp2(Wide x) { return std::exp2(x.value); }
  friend Wide expm1(Wide x) { return std::expm1(x.value); }
  friend Wide log(Wide x) { return std::log(x.value); }
  friend Wide log2(Wide x) { return std::log2(x.value); }
  friend Wide log10(Wide x) { return std::log10(x.value); }
  friend Wide log1p(Wide x) { return std::log1p(x.value); }
  friend Wide log1p_of_fraction(Wide x) { return std::log1p(x.value); }
  friend Wide sin(Wide x) { return std::sin(x.value); }
  friend Wide cos(Wide x) { return std::cos(x.value); }
  friend Wide tan(Wide x) { return std::tan(x.value); }
  friend Wide asin(Wide x) { return std::asin(x.value); }
  friend Wide acos(Wide x) { return std::acos(x.value); }
  friend Wide atan(Wide x) { return std::atan(x.value); }
  friend Wide sinh(Wide x) { return std::sinh(x.value); }
  friend Wide cosh(Wide x) { return std::cosh(x.value); }
  friend Wide tanh(Wide x) { return std::tanh(x.value); }
  friend Wide asinh(Wide x) { return std::asinh(x.value); }
  friend Wide acosh(Wide x) { return std::acosh(x.value); }
  friend Wide atanh(Wide x) { return std::atanh(x.value); }
  friend Wide erf(Wide x) { return std::erf(x.value); }
  friend Wide erfc(Wide x) { return std::erfc(x.value); }
  friend Wide lgamma(Wide x) { return std::lgamma(x.value); }
  friend Wide sqrt(Wide x) { return std::sqrt(x.value); }
  friend Wide rsqrt(Wide x) { return 1 / std::sqrt(x.value); }
  friend Wide abs(Wide x) { return std::fabs(x.value); }
  friend Wide floor(Wide x) { return std::floor(x.value); }
  friend Wide ceil(Wide x) { return std::ceil(x.value); }
  friend Wide trunc(Wide x) { return std::trunc(x.value); }
  friend Wide rint(Wide x) { return std::rint(x.value); }
  friend Wide pow(Wide x, Wide y) { return std::pow(x.value, y.value); }
  friend Wide fmod(Wide x, Wide y) { return std::fmod(x.value, y.value); }
  friend Wide atan2(Wide y, Wide x) { return std::atan2(y.value, x.value); }
  friend Wide hypot(Wide x, Wide y) { return std::hypot(x.value, y.value); }
  friend Wide copysign(Wide x, Wide y) { return std::copysign(x.value, y.value); }

  // The library's formulas for these have no more digits than double.
  friend Wide digamma(Wide x) {
    constexpr long double pi = 3.14159265358979323846264338327950288L;
    if (x.value == 0) return -1 / x.value;
    const long double whole = std::rint(x.value);
    if (x.value < 0.5L)
      return x.value == whole ? Wide(std::numeric_limits<long double>::quiet_NaN())
                              : digamma(Wide(1 - x.value)) - pi / std::tan(pi * (x.value - whole));
    long double far = x.value, shift = 0;
    for (; far < 40; ++far) shift += 1 / far;
    const long double q = 1 / (far * far);
    const long double series =
        q * (1 / 12.0L - q * (1 / 120.0L - q * (1 / 252.0L - q * (1 / 240.0L - q / 132))));
    return std::log(far) - 0.5L / far - series - shift;
  }
  friend Wide normal_cdf(Wide x) {
    return std::erfc(x.value * -0.70710678118654752440084436210484904L) / 2;
  }
};

}  // namespace tensora::suite
