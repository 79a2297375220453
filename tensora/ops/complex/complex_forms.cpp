// Registers nothing: functions of other ops.
#include "tensora/ops/complex/complex_forms.h"

#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/define_pointwise.h"
#include "tensora/ops/pointwise/functions.h"

namespace tensora {
namespace {

constexpr double kPi = 3.14159265358979324;
constexpr double kLn2 = 0.69314718055994531, kLn10 = 2.3025850929940457;

// i z and -i z, exactly: a product would turn infinite parts into NaN.
Tensor times_i(const Tensor& z) { return complex(-imag(z), real(z)); }
Tensor over_i(const Tensor& z) { return complex(imag(z), -real(z)); }

// Part by part: a product with a complex number makes NaN of 0 times infinity.
Tensor times(const Tensor& z, double number) { return complex(real(z) * number, imag(z) * number); }

}  // namespace

bool ComplexForms::suit(std::initializer_list<Arg> operands) {
  for (const Arg& operand : operands)
    if (operand->defined() && operand->is_complex()) return true;
  return false;
}

Tensor ComplexForms::kept(std::initializer_list<Arg> operands) {
  const Tensor& first = *operands.begin()[0];
  for (const Arg& operand : operands)
    if (operand->defined() && operand->requires_grad()) return clone(first);
  return first;
}

Tensor ComplexForms::tan(const Tensor& z) { return over_i(tensora::tanh(times_i(z))); }
Tensor ComplexForms::sinh(const Tensor& z) { return over_i(tensora::sin(times_i(z))); }
Tensor ComplexForms::cosh(const Tensor& z) { return tensora::cos(times_i(z)); }

Tensor ComplexForms::asinh(const Tensor& z) { return over_i(tensora::asin(times_i(z))); }
Tensor ComplexForms::atan(const Tensor& z) { return over_i(tensora::atanh(times_i(z))); }

Tensor ComplexForms::sinc(const Tensor& z) {
  const Tensor angle = times(z, kPi), is_zero = eq(z, 0);
  return where(is_zero, 1, tensora::sin(angle) / where(is_zero, 1, angle));
}

Tensor ComplexForms::exp2(const Tensor& z) { return tensora::exp(times(z, kLn2)); }
Tensor ComplexForms::log2(const Tensor& z) { return times(tensora::log(z), 1 / kLn2); }
Tensor ComplexForms::log10(const Tensor& z) { return times(tensora::log(z), 1 / kLn10); }

Tensor ComplexForms::silu(const Tensor& z) { return z * tensora::sigmoid(z); }
Tensor ComplexForms::tanhshrink(const Tensor& z) { return z - tensora::tanh(z); }
Tensor ComplexForms::softsign(const Tensor& z) { return z / (tensora::abs(z) + 1); }

Tensor ComplexForms::logical_not(const Tensor& z) { return eq(z, 0); }
Tensor ComplexForms::logical_and(const Tensor& z, const Tensor& other) {
  return tensora::logical_and(ne(z, 0), ne(other, 0));
}
Tensor ComplexForms::logical_or(const Tensor& z, const Tensor& other) {
  return tensora::logical_or(ne(z, 0), ne(other, 0));
}
Tensor ComplexForms::logical_xor(const Tensor& z, const Tensor& other) {
  return tensora::logical_xor(ne(z, 0), ne(other, 0));
}

Tensor ComplexForms::logaddexp(const Tensor& z, const Tensor& other) {
  const Tensor first = ge(real(z), real(other));
  const Tensor larger = where(first, z, other), smaller = where(first, other, z);
  // Equal infinities have no difference; the larger one is the result whatever it is.
  const Tensor difference = where(isinf(real(larger)), 0, smaller - larger);
  return larger + tensora::log1p(tensora::exp(difference));
}
Tensor ComplexForms::lerp(const Tensor& z, const Tensor& end, const Tensor& weight) {
  // A number as the weight would be computed with in the default dtype.
  const Arg operands[] = {z, end, weight};
  const Tensor factor = to(weight, result_type(operands));
  // From the nearer end, so that both ends are met exactly.
  const Tensor distance = end - z;
  return where(lt(tensora::abs(factor), 0.5), z + factor * distance, end - distance * (1 - factor));
}
Tensor ComplexForms::addcdiv(const Tensor& z, const Tensor& tensor1, const Tensor& tensor2,
                             Scalar value) {
  return z + tensor1 * value / tensor2;
}

}  // namespace tensora
