#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The p-norm of `self - other`.
Tensor dist(const Tensor& self, const Tensor& other, Scalar p = 2);

/// `self` with those slices of `dim` scaled down whose p-norm exceeds `maxnorm`, to that norm.
Tensor renorm(const Tensor& self, Scalar p, int64_t dim, Scalar maxnorm);
const Tensor& renorm_(const Tensor& self, Scalar p, int64_t dim, Scalar maxnorm);

/// The integral over `dim` of a function given by its values `y` at points `dx` apart, or at `x`,
/// by the trapezoidal rule.
Tensor trapezoid(const Tensor& y, Scalar dx = 1, int64_t dim = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
/// The integrals from the first point to each of the others.
Tensor cumulative_trapezoid(const Tensor& y, Scalar dx = 1, int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);

}  // namespace tensora
