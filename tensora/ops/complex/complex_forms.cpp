// Registers nothing: functions of other ops.
#include "tensora/ops/complex/complex_forms.h"

#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"

namespace tensora {
namespace {

constexpr double kPi = 3.14159265358979324;
constexpr double kLn2 = 0.69314718055994531, kLn10 = 2.3025850929940457;

// i z and -i z, exactly: a product would turn infinite parts into NaN.
Tensor times_i(const Tensor& z) { return complex(-imag(z), real(z)); }
Tensor over_i(const Tensor& z) { return complex(imag(z), -real(z)); }

// Sums and products with real numbers, part by part: those with complex ones lose the sign of a
// zero, and make NaN of 0 times infinity.
Tensor plus(const Tensor& z, double number) { return complex(real(z) + number, imag(z)); }
Tensor times(const Tensor& z, double number) { return complex(real(z) * number, imag(z) * number); }

// Imag(conj(a) b), and the real part.
Tensor cross(const Tensor& a, const Tensor& b) { return imag(conj(a) * b); }
Tensor inner(const Tensor& a, const Tensor& b) { return real(conj(a) * b); }

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

// Note [Inverse functions of complex numbers]
// By the roots of 1 - z and 1 + z instead of the root of their product: exact near the branch
// points, and on the right side of the branch cuts, which signed zeros tell apart.
Tensor ComplexForms::asin(const Tensor& z) {
  const Tensor a = sqrt(plus(-z, 1)), b = sqrt(plus(z, 1));
  return complex(atan2(real(z), real(a * b)), tensora::asinh(cross(a, b)));
}
Tensor ComplexForms::acos(const Tensor& z) {
  const Tensor a = sqrt(plus(-z, 1)), b = sqrt(plus(z, 1));
  return complex(atan2(real(a), real(b)) * 2, tensora::asinh(cross(b, a)));
}
Tensor ComplexForms::acosh(const Tensor& z) {
  const Tensor a = sqrt(plus(z, -1)), b = sqrt(plus(z, 1));
  return complex(tensora::asinh(inner(a, b)), atan2(imag(a), real(b)) * 2);
}
Tensor ComplexForms::asinh(const Tensor& z) { return over_i(asin(times_i(z))); }

Tensor ComplexForms::atanh(const Tensor& z) {
  const Tensor x = real(z), y = imag(z), square = y * y;
  const Tensor left = 1 - x;
  return complex(tensora::log1p(x * 4 / (left * left + square)) * 0.25,
                 atan2(y * 2, left * (x + 1) - square) * 0.5);
}
Tensor ComplexForms::atan(const Tensor& z) { return over_i(atanh(times_i(z))); }

Tensor ComplexForms::sinc(const Tensor& z) {
  const Tensor angle = z * kPi, is_zero = eq(z, 0);
  return where(is_zero, 1, tensora::sin(angle) / where(is_zero, 1, angle));
}

Tensor ComplexForms::exp2(const Tensor& z) { return tensora::exp(times(z, kLn2)); }
Tensor ComplexForms::expm1(const Tensor& z) {
  const Tensor x = real(z), y = imag(z), half = tensora::sin(y * 0.5);
  return complex(tensora::expm1(x) * tensora::cos(y) - half * half * 2,
                 tensora::exp(x) * tensora::sin(y));
}

Tensor ComplexForms::log2(const Tensor& z) { return times(tensora::log(z), 1 / kLn2); }
Tensor ComplexForms::log10(const Tensor& z) { return times(tensora::log(z), 1 / kLn10); }
Tensor ComplexForms::log1p(const Tensor& z) {
  // Near 0 the length of 1 + z is too close to 1 to be rounded first.
  const Tensor x = real(z), y = imag(z);
  const Tensor near = tensora::log1p(x * (x + 2) + y * y) * 0.5;
  const Tensor far = tensora::log(hypot(x + 1, y));
  return complex(where(lt(tensora::abs(z), 0.5), near, far), atan2(y, x + 1));
}

Tensor ComplexForms::sigmoid(const Tensor& z) { return reciprocal(tensora::exp(-z) + 1); }
Tensor ComplexForms::silu(const Tensor& z) { return z * sigmoid(z); }
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
  return larger + log1p(tensora::exp(smaller - larger));
}
Tensor ComplexForms::lerp(const Tensor& z, const Tensor& end, const Tensor& weight) {
  // From the nearer end, so that both ends are met exactly.
  const Tensor distance = end - z;
  return where(lt(tensora::abs(weight), 0.5), z + weight * distance, end - distance * (1 - weight));
}
Tensor ComplexForms::addcdiv(const Tensor& z, const Tensor& tensor1, const Tensor& tensor2,
                             Scalar value) {
  return z + tensor1 * value / tensor2;
}

}  // namespace tensora
