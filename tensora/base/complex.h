#pragma once

// Complex numbers for the host, nvcc and NVRTC alike: <complex> does not work in all three, and
// including it would slow down the compilation of every program that uses the library. The
// functions of complex numbers are in complex_math.h.

#include "tensora/base/host_device.h"

namespace tensora {

template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T re, im;

  Complex() = default;
  TENSORA_HD constexpr Complex(T real_part, T imaginary_part = 0)
      : re(real_part), im(imaginary_part) {}
  /// From std::complex and from the other precision.
  template <class Z>
    requires requires(const Z& z, double part) {
      part = z.real();
      part = z.imag();
    }
  TENSORA_HD constexpr Complex(const Z& z)
      : re(static_cast<T>(z.real())), im(static_cast<T>(z.imag())) {}

  TENSORA_HD constexpr T real() const { return re; }
  TENSORA_HD constexpr T imag() const { return im; }

  TENSORA_HD constexpr Complex operator-() const { return {-re, -im}; }
  TENSORA_HD friend constexpr Complex operator+(Complex a, Complex b) {
    return {a.re + b.re, a.im + b.im};
  }
  TENSORA_HD friend constexpr Complex operator-(Complex a, Complex b) {
    return {a.re - b.re, a.im - b.im};
  }
  TENSORA_HD friend constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  /// Scaled by the divisor's larger part, so that nothing overflows on the way (Smith's method).
  TENSORA_HD friend constexpr Complex operator/(Complex a, Complex b) {
    const T width = b.re < 0 ? -b.re : b.re, height = b.im < 0 ? -b.im : b.im;
    if (width >= height) {
      if (width == 0) return {a.re / width, a.im / width};
      const T ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const T ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
  TENSORA_HD constexpr Complex& operator+=(Complex other) { return *this = *this + other; }
  TENSORA_HD friend constexpr bool operator==(Complex a, Complex b) {
    return a.re == b.re && a.im == b.im;
  }
};

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<Complex<T>> = true;

}  // namespace tensora
