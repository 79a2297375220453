// Registers nothing: functions of other ops.
#include "tensora/ops/pointwise/number_functions.h"

#include <cmath>
#include <numbers>

#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/complex/complex_forms.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/define_pointwise.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

using functors::FrexpExponent, functors::Ldexp, functors::Nextafter;

Nextafter nextafter_functor(DType dtype) {
  return {{}, dtype == kBFloat16 ? 1 : dtype == kFloat16 ? 2 : 0};
}

// Then the exponent is added to the number's own, and nothing overflows on the way.
bool has_whole_exponent(const Tensor& self, const Tensor& other) {
  return self.is_floating_point() && is_integral(other.dtype());
}

/// An exponent without dims is a number, which takes part in the precision of the result.
Tensor power_of_two(const Tensor& self, const Tensor& exponent) {
  const Arg operands[] = {self, exponent};
  const DType dtype = result_type(operands);
  const bool is_number = exponent.dim() == 0 && is_floating_point(dtype);
  return pow(2.0, is_number ? to(exponent, dtype) : exponent);
}

DType power_type(bool complex) { return complex ? kComplex128 : kFloat64; }

const Tensor& check_power_target(const Tensor& self, bool complex) {
  check(self.dtype() == power_type(complex), "float_power_: the result of dtype ",
        power_type(complex), " cannot be stored in place as ", self.dtype());
  return self;
}

}  // namespace

Tensor nextafter(const Tensor& self, const Tensor& other) {
  const Arg operands[] = {self, other};
  return apply(pointwise_op<Nextafter>(), {self, other}, nextafter_functor(result_type(operands)));
}
const Tensor& nextafter_(const Tensor& self, const Tensor& other) {
  const Arg operands[] = {self, other};
  return apply_inplace(pointwise_op<Nextafter>(), {self, other},
                       nextafter_functor(result_type(operands)));
}

std::tuple<Tensor, Tensor> frexp(const Tensor& self) {
  check(self.is_floating_point(), "frexp: expected a floating-point tensor, got ", self.dtype());
  const Tensor exponent = to(apply(pointwise_op<FrexpExponent>(), {self.detach()}), kInt32);
  return {ldexp(self, neg(exponent)), exponent};
}

Tensor ldexp(const Tensor& self, const Tensor& other) {
  if (has_whole_exponent(self, other)) return apply(pointwise_op<Ldexp>(), {self, other});
  return self * power_of_two(self, other);
}
const Tensor& ldexp_(const Tensor& self, const Tensor& other) {
  if (has_whole_exponent(self, other)) return apply_inplace(pointwise_op<Ldexp>(), {self, other});
  return mul_(self, power_of_two(self, other));
}

Tensor float_power(const Tensor& self, const Tensor& exponent) {
  const DType dtype = power_type(self.is_complex() || exponent.is_complex());
  return pow(to(self, dtype), to(exponent, dtype));
}
Tensor float_power(const Tensor& self, Scalar exponent) {
  return pow(to(self, power_type(self.is_complex() || exponent.is_complex())), exponent);
}
Tensor float_power(Scalar self, const Tensor& exponent) {
  return pow(self, to(exponent, power_type(self.is_complex() || exponent.is_complex())));
}
const Tensor& float_power_(const Tensor& self, const Tensor& exponent) {
  const bool complex = self.is_complex() || exponent.is_complex();
  return pow_(check_power_target(self, complex), to(exponent, power_type(complex)));
}
const Tensor& float_power_(const Tensor& self, Scalar exponent) {
  return pow_(check_power_target(self, self.is_complex() || exponent.is_complex()), exponent);
}

Tensor isreal(const Tensor& self) {
  if (self.is_complex()) return imag(self) == 0;
  return ones_like(self, {.dtype = kBool});
}

Tensor positive(const Tensor& self) {
  check(self.dtype() != kBool, "positive: bool tensors are not supported");
  return self;
}

const Tensor& sgn_(const Tensor& self) {
  return self.is_complex() ? copy_(self, sgn(ComplexForms::kept({self}))) : sign_(self);
}

Tensor rsub(const Tensor& self, const Tensor& other, Scalar alpha) {
  return called_as("rsub", [&] { return sub(other, self, alpha); });
}
Tensor rsub(const Tensor& self, Scalar other, Scalar alpha) {
  return rsub(self, wrap_number(other), alpha);
}

Tensor mvlgamma(const Tensor& self, int64_t p) {
  check(p >= 1, "mvlgamma: p must be at least 1, got ", p);
  check(self.dtype() != kBool, "mvlgamma: bool tensors are not supported");
  const auto n = static_cast<double>(p);
  const DType dtype = self.is_floating_point() ? self.dtype() : kFloat32;
  // All terms at once, so that a p beyond all bounds is refused for want of memory.
  const Tensor halves = arange(0, n / 2, 0.5, {.dtype = dtype, .device = self.device()});
  return sum(lgamma(unsqueeze(self, -1) - halves), -1) +
         n * (n - 1) / 4 * std::log(std::numbers::pi);
}
const Tensor& mvlgamma_(const Tensor& self, int64_t p) {
  return copy_(self, mvlgamma(self.requires_grad() ? clone(self) : self, p));
}

}  // namespace tensora
