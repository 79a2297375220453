#pragma once

#include "tensora/sparse/sparse_tensor.h"

namespace tensora::sparse {

/// Functions that keep zeros, of the entries; those of an uncoalesced tensor are added up first,
/// for all functions but neg and the conversions of units.
SparseTensor abs(const SparseTensor& self);
SparseTensor asin(const SparseTensor& self);
SparseTensor asinh(const SparseTensor& self);
SparseTensor atan(const SparseTensor& self);
SparseTensor atanh(const SparseTensor& self);
SparseTensor ceil(const SparseTensor& self);
SparseTensor deg2rad(const SparseTensor& self);
SparseTensor erf(const SparseTensor& self);
SparseTensor erfinv(const SparseTensor& self);
SparseTensor expm1(const SparseTensor& self);
SparseTensor floor(const SparseTensor& self);
SparseTensor frac(const SparseTensor& self);
SparseTensor isinf(const SparseTensor& self);
SparseTensor isnan(const SparseTensor& self);
SparseTensor log1p(const SparseTensor& self);
SparseTensor neg(const SparseTensor& self);
SparseTensor rad2deg(const SparseTensor& self);
SparseTensor relu(const SparseTensor& self);
SparseTensor round(const SparseTensor& self);
SparseTensor sgn(const SparseTensor& self);
SparseTensor sign(const SparseTensor& self);
SparseTensor sin(const SparseTensor& self);
SparseTensor sinh(const SparseTensor& self);
SparseTensor sqrt(const SparseTensor& self);
SparseTensor square(const SparseTensor& self);
SparseTensor tan(const SparseTensor& self);
SparseTensor tanh(const SparseTensor& self);
SparseTensor trunc(const SparseTensor& self);
/// The exponent must be greater than 0.
SparseTensor pow(const SparseTensor& self, double exponent);

SparseTensor mul(const SparseTensor& self, Scalar other);
/// `other` broadcasts to the shape of `self`; it is read at the entries alone.
SparseTensor mul(const SparseTensor& self, const Tensor& other);
/// With the entries that both have.
SparseTensor mul(const SparseTensor& self, const SparseTensor& other);
SparseTensor div(const SparseTensor& self, Scalar other);
SparseTensor div(const SparseTensor& self, const Tensor& other);
/// self + alpha * other, in the layout of `self`.
SparseTensor add(const SparseTensor& self, const SparseTensor& other, Scalar alpha = 1);
SparseTensor sub(const SparseTensor& self, const SparseTensor& other, Scalar alpha = 1);
Tensor add(const Tensor& self, const SparseTensor& other, Scalar alpha = 1);
Tensor sub(const Tensor& self, const SparseTensor& other, Scalar alpha = 1);

/// The sum of all elements.
Tensor sum(const SparseTensor& self, std::optional<DType> dtype = {});
/// The sum over sparse or dense dims, of which some sparse dim must be left; for all sparse dims,
/// sum_to_dense.
SparseTensor sum(const SparseTensor& self, const Dims& dim, std::optional<DType> dtype = {});
/// The sum over all sparse dims: a tensor of the dense dims.
Tensor sum_to_dense(const SparseTensor& self, std::optional<DType> dtype = {});

/// softmax along one of two sparse dims, over the entries alone: all others count as -inf.
SparseTensor softmax(const SparseTensor& self, int64_t dim, std::optional<DType> dtype = {});
SparseTensor log_softmax(const SparseTensor& self, int64_t dim, std::optional<DType> dtype = {});

inline SparseTensor operator-(const SparseTensor& self) { return neg(self); }
inline SparseTensor operator*(const SparseTensor& self, Scalar other) { return mul(self, other); }
inline SparseTensor operator*(Scalar self, const SparseTensor& other) { return mul(other, self); }
inline SparseTensor operator*(const SparseTensor& self, const Tensor& other) {
  return mul(self, other);
}
inline SparseTensor operator*(const Tensor& self, const SparseTensor& other) {
  return mul(other, self);
}
inline SparseTensor operator*(const SparseTensor& self, const SparseTensor& other) {
  return mul(self, other);
}
inline SparseTensor operator/(const SparseTensor& self, Scalar other) { return div(self, other); }
inline SparseTensor operator/(const SparseTensor& self, const Tensor& other) {
  return div(self, other);
}
inline SparseTensor operator+(const SparseTensor& self, const SparseTensor& other) {
  return add(self, other);
}
inline SparseTensor operator-(const SparseTensor& self, const SparseTensor& other) {
  return sub(self, other);
}
inline Tensor operator+(const Tensor& self, const SparseTensor& other) { return add(self, other); }
inline Tensor operator+(const SparseTensor& self, const Tensor& other) { return add(other, self); }
inline Tensor operator-(const Tensor& self, const SparseTensor& other) { return sub(self, other); }

}  // namespace tensora::sparse
