#include "tensora/ops/special_functions.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/pointwise/describe.h"

// Registers nothing: the functors of pointwise/special_functors.h are registered with the others.

namespace tensora {

using namespace math;
using functors::SpecialFunction, functors::SpecialPair;

Tensor special_function(int function, const Tensor& x) {
  return apply(pointwise_op<SpecialFunction>(), {x}, SpecialFunction{{}, function});
}

Tensor special_pair(int function, const Tensor& a, const Tensor& b) {
  return apply(pointwise_op<SpecialPair>(), {a, b}, SpecialPair{{}, function});
}

Tensor no_derivative(int function, const Tensor&) {
  fail("the derivative for '",
       function == kZeta     ? "zeta"
       : function == kIgamma ? "igamma: input"
                             : "igammac: input",
       "' is not implemented.");
}

Tensor i0(const Tensor& self) { return special_function(kBesselI0, self); }
const Tensor& i0_(const Tensor& self) {
  return apply_inplace(pointwise_op<SpecialFunction>(), {self}, SpecialFunction{{}, kBesselI0});
}
Tensor igamma(const Tensor& self, const Tensor& other) {
  return special_pair(kIgamma, self, other);
}
const Tensor& igamma_(const Tensor& self, const Tensor& other) {
  return apply_inplace(pointwise_op<SpecialPair>(), {self, other}, SpecialPair{{}, kIgamma});
}
Tensor igammac(const Tensor& self, const Tensor& other) {
  return special_pair(kIgammac, self, other);
}
const Tensor& igammac_(const Tensor& self, const Tensor& other) {
  return apply_inplace(pointwise_op<SpecialPair>(), {self, other}, SpecialPair{{}, kIgammac});
}

namespace special {
namespace {

// PyTorch has no gradients of these.
Tensor plain(int function, const Tensor& x) {
  const no_grad silent;
  return special_function(function, x);
}
Tensor plain(int function, const Tensor& x, const Tensor& n) {
  const no_grad silent;
  return special_pair(function, x, n);
}

}  // namespace

Tensor i0(const Tensor& input) { return special_function(kBesselI0, input); }
Tensor i0e(const Tensor& input) { return special_function(kBesselI0e, input); }
Tensor i1(const Tensor& input) { return special_function(kBesselI1, input); }
Tensor i1e(const Tensor& input) { return special_function(kBesselI1e, input); }
Tensor modified_bessel_i0(const Tensor& input) { return special_function(kBesselI0, input); }
Tensor modified_bessel_i1(const Tensor& input) { return special_function(kBesselI1, input); }
Tensor modified_bessel_k0(const Tensor& input) { return special_function(kBesselK0, input); }
Tensor modified_bessel_k1(const Tensor& input) { return special_function(kBesselK1, input); }
Tensor bessel_j0(const Tensor& input) { return special_function(kBesselJ0, input); }
Tensor bessel_j1(const Tensor& input) { return special_function(kBesselJ1, input); }
Tensor bessel_y0(const Tensor& input) { return special_function(kBesselY0, input); }
Tensor bessel_y1(const Tensor& input) { return special_function(kBesselY1, input); }
Tensor erfcx(const Tensor& input) { return special_function(kErfcx, input); }
Tensor ndtri(const Tensor& input) { return special_function(kNdtri, input); }
Tensor log_ndtr(const Tensor& input) { return special_function(kLogNdtr, input); }
Tensor entr(const Tensor& input) { return special_function(kEntr, input); }
Tensor scaled_modified_bessel_k0(const Tensor& input) { return plain(kBesselK0e, input); }
Tensor scaled_modified_bessel_k1(const Tensor& input) { return plain(kBesselK1e, input); }
Tensor spherical_bessel_j0(const Tensor& input) { return plain(kSphericalBesselJ0, input); }
Tensor airy_ai(const Tensor& input) { return plain(kAiryAi, input); }

Tensor gammainc(const Tensor& input, const Tensor& other) { return igamma(input, other); }
Tensor gammaincc(const Tensor& input, const Tensor& other) { return igammac(input, other); }
Tensor zeta(const Tensor& input, const Tensor& other) { return special_pair(kZeta, input, other); }
Tensor zeta(const Tensor& input, Scalar other) { return zeta(input, wrap_number(other)); }
Tensor zeta(Scalar input, const Tensor& other) { return zeta(wrap_number(input), other); }

Tensor chebyshev_polynomial_t(const Tensor& input, const Tensor& n) {
  return plain(kChebyshevT, input, n);
}
Tensor chebyshev_polynomial_t(const Tensor& input, Scalar n) {
  return plain(kChebyshevT, input, wrap_number(n));
}
Tensor chebyshev_polynomial_t(Scalar input, const Tensor& n) {
  return plain(kChebyshevT, wrap_number(input), n);
}
Tensor chebyshev_polynomial_u(const Tensor& input, const Tensor& n) {
  return plain(kChebyshevU, input, n);
}
Tensor chebyshev_polynomial_u(const Tensor& input, Scalar n) {
  return plain(kChebyshevU, input, wrap_number(n));
}
Tensor chebyshev_polynomial_u(Scalar input, const Tensor& n) {
  return plain(kChebyshevU, wrap_number(input), n);
}
Tensor chebyshev_polynomial_v(const Tensor& input, const Tensor& n) {
  return plain(kChebyshevV, input, n);
}
Tensor chebyshev_polynomial_v(const Tensor& input, Scalar n) {
  return plain(kChebyshevV, input, wrap_number(n));
}
Tensor chebyshev_polynomial_v(Scalar input, const Tensor& n) {
  return plain(kChebyshevV, wrap_number(input), n);
}
Tensor chebyshev_polynomial_w(const Tensor& input, const Tensor& n) {
  return plain(kChebyshevW, input, n);
}
Tensor chebyshev_polynomial_w(const Tensor& input, Scalar n) {
  return plain(kChebyshevW, input, wrap_number(n));
}
Tensor chebyshev_polynomial_w(Scalar input, const Tensor& n) {
  return plain(kChebyshevW, wrap_number(input), n);
}
Tensor shifted_chebyshev_polynomial_t(const Tensor& input, const Tensor& n) {
  return plain(kShiftedChebyshevT, input, n);
}
Tensor shifted_chebyshev_polynomial_t(const Tensor& input, Scalar n) {
  return plain(kShiftedChebyshevT, input, wrap_number(n));
}
Tensor shifted_chebyshev_polynomial_t(Scalar input, const Tensor& n) {
  return plain(kShiftedChebyshevT, wrap_number(input), n);
}
Tensor shifted_chebyshev_polynomial_u(const Tensor& input, const Tensor& n) {
  return plain(kShiftedChebyshevU, input, n);
}
Tensor shifted_chebyshev_polynomial_u(const Tensor& input, Scalar n) {
  return plain(kShiftedChebyshevU, input, wrap_number(n));
}
Tensor shifted_chebyshev_polynomial_u(Scalar input, const Tensor& n) {
  return plain(kShiftedChebyshevU, wrap_number(input), n);
}
Tensor shifted_chebyshev_polynomial_v(const Tensor& input, const Tensor& n) {
  return plain(kShiftedChebyshevV, input, n);
}
Tensor shifted_chebyshev_polynomial_v(const Tensor& input, Scalar n) {
  return plain(kShiftedChebyshevV, input, wrap_number(n));
}
Tensor shifted_chebyshev_polynomial_v(Scalar input, const Tensor& n) {
  return plain(kShiftedChebyshevV, wrap_number(input), n);
}
Tensor shifted_chebyshev_polynomial_w(const Tensor& input, const Tensor& n) {
  return plain(kShiftedChebyshevW, input, n);
}
Tensor shifted_chebyshev_polynomial_w(const Tensor& input, Scalar n) {
  return plain(kShiftedChebyshevW, input, wrap_number(n));
}
Tensor shifted_chebyshev_polynomial_w(Scalar input, const Tensor& n) {
  return plain(kShiftedChebyshevW, wrap_number(input), n);
}
Tensor hermite_polynomial_h(const Tensor& input, const Tensor& n) {
  return plain(kHermiteH, input, n);
}
Tensor hermite_polynomial_h(const Tensor& input, Scalar n) {
  return plain(kHermiteH, input, wrap_number(n));
}
Tensor hermite_polynomial_h(Scalar input, const Tensor& n) {
  return plain(kHermiteH, wrap_number(input), n);
}
Tensor hermite_polynomial_he(const Tensor& input, const Tensor& n) {
  return plain(kHermiteHe, input, n);
}
Tensor hermite_polynomial_he(const Tensor& input, Scalar n) {
  return plain(kHermiteHe, input, wrap_number(n));
}
Tensor hermite_polynomial_he(Scalar input, const Tensor& n) {
  return plain(kHermiteHe, wrap_number(input), n);
}
Tensor laguerre_polynomial_l(const Tensor& input, const Tensor& n) {
  return plain(kLaguerreL, input, n);
}
Tensor laguerre_polynomial_l(const Tensor& input, Scalar n) {
  return plain(kLaguerreL, input, wrap_number(n));
}
Tensor laguerre_polynomial_l(Scalar input, const Tensor& n) {
  return plain(kLaguerreL, wrap_number(input), n);
}
Tensor legendre_polynomial_p(const Tensor& input, const Tensor& n) {
  return plain(kLegendreP, input, n);
}
Tensor legendre_polynomial_p(const Tensor& input, Scalar n) {
  return plain(kLegendreP, input, wrap_number(n));
}
Tensor legendre_polynomial_p(Scalar input, const Tensor& n) {
  return plain(kLegendreP, wrap_number(input), n);
}

}  // namespace special
}  // namespace tensora
