#pragma once

// Arithmetic and comparison operators on tensors and numbers, and the spellings that functors use
// when their value type is Tensor.

#include "tensora/ops/complex/complex.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/pointwise/variants.h"

namespace tensora {

inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator~(const Tensor& a) { return bitwise_not(a); }
inline Tensor operator!(const Tensor& a) { return logical_not(a); }
// Element by element; unlike those of bools, both operands are always computed.
inline Tensor operator&&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator||(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
// Templates, since a number would be converted to Scalar no better than to the built-in's bool.
template <class Number>
  requires std::is_arithmetic_v<Number>
Tensor operator&&(const Tensor& a, Number b) {
  return logical_and(a, Scalar(b));
}
template <class Number>
  requires std::is_arithmetic_v<Number>
Tensor operator||(const Tensor& a, Number b) {
  return logical_or(a, Scalar(b));
}
template <class Number>
  requires std::is_arithmetic_v<Number>
Tensor operator&&(Number a, const Tensor& b) {
  return logical_and(b, Scalar(a));
}
template <class Number>
  requires std::is_arithmetic_v<Number>
Tensor operator||(Number a, const Tensor& b) {
  return logical_or(b, Scalar(a));
}

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }

inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
inline Tensor operator&(const Tensor& a, Scalar b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, Scalar b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, Scalar b) { return bitwise_xor(a, b); }
inline Tensor operator<<(const Tensor& a, Scalar b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, Scalar b) { return bitwise_right_shift(a, b); }

inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(wrap_number(a), b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(wrap_number(a), b); }
inline Tensor operator%(Scalar a, const Tensor& b) { return remainder(wrap_number(a), b); }
inline Tensor operator&(Scalar a, const Tensor& b) { return bitwise_and(b, a); }
inline Tensor operator|(Scalar a, const Tensor& b) { return bitwise_or(b, a); }
inline Tensor operator^(Scalar a, const Tensor& b) { return bitwise_xor(b, a); }
inline Tensor operator<<(Scalar a, const Tensor& b) {
  return bitwise_left_shift(wrap_number(a), b);
}
inline Tensor operator>>(Scalar a, const Tensor& b) {
  return bitwise_right_shift(wrap_number(a), b);
}

inline const Tensor& operator+=(const Tensor& a, const Tensor& b) { return add_(a, b); }
inline const Tensor& operator-=(const Tensor& a, const Tensor& b) { return sub_(a, b); }
inline const Tensor& operator*=(const Tensor& a, const Tensor& b) { return mul_(a, b); }
inline const Tensor& operator/=(const Tensor& a, const Tensor& b) { return div_(a, b); }
inline const Tensor& operator%=(const Tensor& a, const Tensor& b) { return remainder_(a, b); }
inline const Tensor& operator&=(const Tensor& a, const Tensor& b) { return bitwise_and_(a, b); }
inline const Tensor& operator|=(const Tensor& a, const Tensor& b) { return bitwise_or_(a, b); }
inline const Tensor& operator^=(const Tensor& a, const Tensor& b) { return bitwise_xor_(a, b); }
inline const Tensor& operator<<=(const Tensor& a, const Tensor& b) {
  return bitwise_left_shift_(a, b);
}
inline const Tensor& operator>>=(const Tensor& a, const Tensor& b) {
  return bitwise_right_shift_(a, b);
}
inline const Tensor& operator+=(const Tensor& a, Scalar b) { return add_(a, b); }
inline const Tensor& operator-=(const Tensor& a, Scalar b) { return sub_(a, b); }
inline const Tensor& operator*=(const Tensor& a, Scalar b) { return mul_(a, b); }
inline const Tensor& operator/=(const Tensor& a, Scalar b) { return div_(a, b); }
inline const Tensor& operator%=(const Tensor& a, Scalar b) { return remainder_(a, b); }
inline const Tensor& operator&=(const Tensor& a, Scalar b) { return bitwise_and_(a, b); }
inline const Tensor& operator|=(const Tensor& a, Scalar b) { return bitwise_or_(a, b); }
inline const Tensor& operator^=(const Tensor& a, Scalar b) { return bitwise_xor_(a, b); }
inline const Tensor& operator<<=(const Tensor& a, Scalar b) { return bitwise_left_shift_(a, b); }
inline const Tensor& operator>>=(const Tensor& a, Scalar b) { return bitwise_right_shift_(a, b); }

inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }
inline Tensor operator==(Scalar a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(Scalar a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(Scalar a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(Scalar a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(Scalar a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(Scalar a, const Tensor& b) { return le(b, a); }

// What a functor writes as select(condition, yes, no), scaled(x, factor), zero_like(x) and
// div_trunc(a, b).
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
inline Tensor zero_like(const Tensor& x) { return zeros_like(x); }
inline Tensor div_trunc(const Tensor& a, const Tensor& b) { return div(a, b, "trunc"); }

}  // namespace tensora
