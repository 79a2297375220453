#pragma once

// Arithmetic and comparison operators on tensors and numbers, and the spellings that functors use
// when their value type is Tensor.

#include "tensora/ops/pointwise/functions.h"

namespace tensora {

inline Tensor operator-(const Tensor& a) { return neg(a); }

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }

inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }

inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(wrap_number(a), b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(wrap_number(a), b); }

inline const Tensor& operator+=(const Tensor& a, const Tensor& b) { return add_(a, b); }
inline const Tensor& operator-=(const Tensor& a, const Tensor& b) { return sub_(a, b); }
inline const Tensor& operator*=(const Tensor& a, const Tensor& b) { return mul_(a, b); }
inline const Tensor& operator/=(const Tensor& a, const Tensor& b) { return div_(a, b); }
inline const Tensor& operator+=(const Tensor& a, Scalar b) { return add_(a, b); }
inline const Tensor& operator-=(const Tensor& a, Scalar b) { return sub_(a, b); }
inline const Tensor& operator*=(const Tensor& a, Scalar b) { return mul_(a, b); }
inline const Tensor& operator/=(const Tensor& a, Scalar b) { return div_(a, b); }

inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }

// What a functor writes as select(condition, yes, no) and scaled(x, factor).
inline Tensor select(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return where(condition, yes, no);
}
inline Tensor select(const Tensor& condition, const Tensor& yes, Scalar no) {
  return where(condition, yes, no);
}
inline Tensor select(const Tensor& condition, Scalar yes, const Tensor& no) {
  return where(condition, yes, no);
}
inline Tensor scaled(const Tensor& x, Scalar factor) { return factor == 1 ? x : mul(x, factor); }

}  // namespace tensora
