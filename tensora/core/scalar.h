#pragma once

// A number of unknown type, as in `x + 2` or `x * 0.5`. Also compiled by NVRTC inside functors.

#include "tensora/base/complex.h"
#include "tensora/base/half.h"

namespace tensora {

class Scalar {
 public:
  enum class Kind : unsigned char { boolean, integer, floating, complex };

  TENSORA_HD constexpr Scalar() : integer_(0), kind_(Kind::integer) {}
  TENSORA_HD constexpr Scalar(bool value) : integer_(value), kind_(Kind::boolean) {}
  TENSORA_HD constexpr Scalar(int value) : integer_(value), kind_(Kind::integer) {}
  TENSORA_HD constexpr Scalar(unsigned value) : integer_(value), kind_(Kind::integer) {}
  TENSORA_HD constexpr Scalar(long value) : integer_(value), kind_(Kind::integer) {}
  TENSORA_HD constexpr Scalar(unsigned long value)
      : integer_(static_cast<long long>(value)), kind_(Kind::integer) {}
  TENSORA_HD constexpr Scalar(long long value) : integer_(value), kind_(Kind::integer) {}
  TENSORA_HD constexpr Scalar(unsigned long long value)
      : integer_(static_cast<long long>(value)), kind_(Kind::integer) {}
  TENSORA_HD constexpr Scalar(float value) : floating_(value), kind_(Kind::floating) {}
  TENSORA_HD constexpr Scalar(double value) : floating_(value), kind_(Kind::floating) {}
  /// A complex number, ours or std::complex.
  template <class Z>
    requires requires(const Z& z, double part) {
      part = z.real();
      part = z.imag();
    }
  TENSORA_HD constexpr Scalar(const Z& z)
      : floating_(z.real()), imaginary_(z.imag()), kind_(Kind::complex) {}

  TENSORA_HD constexpr Kind kind() const { return kind_; }
  TENSORA_HD constexpr bool is_floating() const { return kind_ == Kind::floating; }
  TENSORA_HD constexpr bool is_complex() const { return kind_ == Kind::complex; }

  /// Converting a complex number to a real type takes the real part.
  template <class T>
  TENSORA_HD constexpr T to() const {
    if constexpr (is_complex_type<T>)
      return Complex<double>(to<double>(), imaginary_);
    else
      return is_floating() || is_complex() ? static_cast<T>(floating_) : static_cast<T>(integer_);
  }
  /// Whether `T` can hold the number, by PyTorch's rule: fractions are truncated, any float can be
  /// infinite, anything can be true, and an unsigned type wraps negative integers, down to -max.
  template <class T>
  constexpr bool fits() const {
    if constexpr (T(2) == T(1)) {  // bool
      return true;
    } else if constexpr (T(0.5) != T(0)) {
      const double value = to<double>(), converted = static_cast<double>(to<T>());
      return converted - converted == 0 || value - value != 0;
    } else {
      constexpr bool is_signed = T(-1) < T(0);
      constexpr double limit = 2.0 * static_cast<double>(1ull << (8 * sizeof(T) - 1 - is_signed));
      if (is_floating()) return floating_ >= (is_signed ? -limit : 0) && floating_ < limit;
      if constexpr (sizeof(T) == 8) return true;
      const double value = static_cast<double>(integer_);
      return value >= (is_signed ? -limit : 1 - limit) && value < limit;
    }
  }
  // LibTorch's names.
  constexpr bool toBool() const { return to<bool>(); }
  constexpr int toInt() const { return to<int>(); }
  constexpr long long toLong() const { return to<long long>(); }
  constexpr float toFloat() const { return to<float>(); }
  constexpr double toDouble() const { return to<double>(); }
  constexpr bool isFloatingPoint() const { return is_floating(); }
  constexpr bool isBoolean() const { return kind_ == Kind::boolean; }
  constexpr bool isIntegral(bool include_bool = false) const {
    return kind_ == Kind::integer || (include_bool && isBoolean());
  }
  TENSORA_HD constexpr bool operator==(const Scalar& other) const {
    if (kind_ <= Kind::integer && other.kind_ <= Kind::integer) return integer_ == other.integer_;
    return to<double>() == other.to<double>() && imaginary_ == other.imaginary_;
  }

 private:
  union {
    double floating_;
    long long integer_;
  };
  double imaginary_ = 0;
  Kind kind_;
};

TENSORA_HD constexpr Scalar conj(Scalar value) {
  if (!value.is_complex()) return value;
  const auto z = value.to<Complex<double>>();
  return Complex<double>(z.re, -z.im);
}

}  // namespace tensora
