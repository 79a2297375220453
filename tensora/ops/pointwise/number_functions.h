#pragma once

// Functions of a number's parts and powers that choose between functors, or combine them.

#include "tensora/core/tensor.h"

namespace tensora {

/// The number next to `self` in the direction of `other`.
Tensor nextafter(const Tensor& self, const Tensor& other);
const Tensor& nextafter_(const Tensor& self, const Tensor& other);

/// Mantissa, between 1/2 and 1 in magnitude, and exponent (int32): self = mantissa * 2^exponent.
std::tuple<Tensor, Tensor> frexp(const Tensor& self);
/// self * 2^other
Tensor ldexp(const Tensor& self, const Tensor& other);
const Tensor& ldexp_(const Tensor& self, const Tensor& other);

/// The power, computed in float64 (complex128) whatever the operands are.
Tensor float_power(const Tensor& self, const Tensor& exponent);
Tensor float_power(const Tensor& self, Scalar exponent);
Tensor float_power(Scalar self, const Tensor& exponent);
const Tensor& float_power_(const Tensor& self, const Tensor& exponent);
const Tensor& float_power_(const Tensor& self, Scalar exponent);

/// Whether the imaginary part is 0, which that of real numbers is.
Tensor isreal(const Tensor& self);
/// `self` itself, which must not be bool.
Tensor positive(const Tensor& self);
const Tensor& sgn_(const Tensor& self);
/// `other - alpha * self`
Tensor rsub(const Tensor& self, const Tensor& other, Scalar alpha = 1);
Tensor rsub(const Tensor& self, Scalar other, Scalar alpha = 1);

/// The logarithm of the p-variate gamma function.
Tensor mvlgamma(const Tensor& self, int64_t p);
const Tensor& mvlgamma_(const Tensor& self, int64_t p);

}  // namespace tensora
