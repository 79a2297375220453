#pragma once

// PyTorch's torch.special beyond the elementary functions: Bessel functions, incomplete gamma
// functions, orthogonal polynomials. All are computed in float64 and rounded once.

#include "tensora/core/tensor.h"

namespace tensora {

/// The modified Bessel function of the first kind of order 0.
Tensor i0(const Tensor& self);
const Tensor& i0_(const Tensor& self);
/// The regularised lower incomplete gamma function P(self, other). No gradient of the first.
Tensor igamma(const Tensor& self, const Tensor& other);
const Tensor& igamma_(const Tensor& self, const Tensor& other);
/// The regularised upper incomplete gamma function Q(self, other). No gradient of the first.
Tensor igammac(const Tensor& self, const Tensor& other);
const Tensor& igammac_(const Tensor& self, const Tensor& other);

}  // namespace tensora

namespace tensora::special {

/// Modified Bessel functions of the first kind, of order 0 and 1; `…e` are times exp(-|x|).
Tensor i0(const Tensor& input);
Tensor i0e(const Tensor& input);
Tensor i1(const Tensor& input);
Tensor i1e(const Tensor& input);
Tensor modified_bessel_i0(const Tensor& input);
Tensor modified_bessel_i1(const Tensor& input);
/// Modified Bessel functions of the second kind.
Tensor modified_bessel_k0(const Tensor& input);
Tensor modified_bessel_k1(const Tensor& input);
/// The same times exp(x). No gradient, as in PyTorch.
Tensor scaled_modified_bessel_k0(const Tensor& input);
Tensor scaled_modified_bessel_k1(const Tensor& input);
/// Bessel functions of the first and of the second kind.
Tensor bessel_j0(const Tensor& input);
Tensor bessel_j1(const Tensor& input);
Tensor bessel_y0(const Tensor& input);
Tensor bessel_y1(const Tensor& input);
/// sin(x) / x. No gradient, as in PyTorch.
Tensor spherical_bessel_j0(const Tensor& input);
/// The Airy function Ai. No gradient, as in PyTorch.
Tensor airy_ai(const Tensor& input);
/// exp(x²) erfc(x).
Tensor erfcx(const Tensor& input);
/// The inverse of the standard normal distribution function, and that function's logarithm.
Tensor ndtri(const Tensor& input);
Tensor log_ndtr(const Tensor& input);
/// -x log x; 0 at 0 and minus infinity below.
Tensor entr(const Tensor& input);

/// The regularised lower and upper incomplete gamma functions: tensora::igamma and igammac.
Tensor gammainc(const Tensor& input, const Tensor& other);
Tensor gammaincc(const Tensor& input, const Tensor& other);
/// The Hurwitz zeta function: the sum of (k + other)^-input. No gradient of the first.
Tensor zeta(const Tensor& input, const Tensor& other);
Tensor zeta(const Tensor& input, Scalar other);
Tensor zeta(Scalar input, const Tensor& other);

/// Orthogonal polynomials of degree n, rounded towards zero; 0 for negative n. No gradients, as in
/// PyTorch.
Tensor chebyshev_polynomial_t(const Tensor& input, const Tensor& n);
Tensor chebyshev_polynomial_t(const Tensor& input, Scalar n);
Tensor chebyshev_polynomial_t(Scalar input, const Tensor& n);
Tensor chebyshev_polynomial_u(const Tensor& input, const Tensor& n);
Tensor chebyshev_polynomial_u(const Tensor& input, Scalar n);
Tensor chebyshev_polynomial_u(Scalar input, const Tensor& n);
Tensor chebyshev_polynomial_v(const Tensor& input, const Tensor& n);
Tensor chebyshev_polynomial_v(const Tensor& input, Scalar n);
Tensor chebyshev_polynomial_v(Scalar input, const Tensor& n);
Tensor chebyshev_polynomial_w(const Tensor& input, const Tensor& n);
Tensor chebyshev_polynomial_w(const Tensor& input, Scalar n);
Tensor chebyshev_polynomial_w(Scalar input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_t(const Tensor& input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_t(const Tensor& input, Scalar n);
Tensor shifted_chebyshev_polynomial_t(Scalar input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_u(const Tensor& input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_u(const Tensor& input, Scalar n);
Tensor shifted_chebyshev_polynomial_u(Scalar input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_v(const Tensor& input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_v(const Tensor& input, Scalar n);
Tensor shifted_chebyshev_polynomial_v(Scalar input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_w(const Tensor& input, const Tensor& n);
Tensor shifted_chebyshev_polynomial_w(const Tensor& input, Scalar n);
Tensor shifted_chebyshev_polynomial_w(Scalar input, const Tensor& n);
Tensor hermite_polynomial_h(const Tensor& input, const Tensor& n);
Tensor hermite_polynomial_h(const Tensor& input, Scalar n);
Tensor hermite_polynomial_h(Scalar input, const Tensor& n);
Tensor hermite_polynomial_he(const Tensor& input, const Tensor& n);
Tensor hermite_polynomial_he(const Tensor& input, Scalar n);
Tensor hermite_polynomial_he(Scalar input, const Tensor& n);
Tensor laguerre_polynomial_l(const Tensor& input, const Tensor& n);
Tensor laguerre_polynomial_l(const Tensor& input, Scalar n);
Tensor laguerre_polynomial_l(Scalar input, const Tensor& n);
Tensor legendre_polynomial_p(const Tensor& input, const Tensor& n);
Tensor legendre_polynomial_p(const Tensor& input, Scalar n);
Tensor legendre_polynomial_p(Scalar input, const Tensor& n);

}  // namespace tensora::special
