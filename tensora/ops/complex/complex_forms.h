#pragma once

// Internal header: functions of complex numbers that are composed of other ops; the others have
// formulas in base/complex_math.h. The function that users call tests for a complex argument and
// comes here: cmake/generate.py finds the names below. Kernels of their own would take more room in
// the library than they are worth.

#include "tensora/dispatch/op.h"

namespace tensora {

struct ComplexForms {
  /// Whether one of the operands is complex.
  static bool suit(std::initializer_list<Arg> operands);
  /// The first operand for a form that is written over it: a copy where a gradient will ask for it.
  static Tensor kept(std::initializer_list<Arg> operands);

  static Tensor tan(const Tensor& z);
  static Tensor sinh(const Tensor& z);
  static Tensor cosh(const Tensor& z);
  static Tensor atan(const Tensor& z);
  static Tensor asinh(const Tensor& z);
  static Tensor sinc(const Tensor& z);
  static Tensor exp2(const Tensor& z);
  static Tensor log2(const Tensor& z);
  static Tensor log10(const Tensor& z);
  static Tensor silu(const Tensor& z);
  static Tensor tanhshrink(const Tensor& z);
  static Tensor softsign(const Tensor& z);
  static Tensor logical_not(const Tensor& z);
  static Tensor logical_and(const Tensor& z, const Tensor& other);
  static Tensor logical_or(const Tensor& z, const Tensor& other);
  static Tensor logical_xor(const Tensor& z, const Tensor& other);
  static Tensor logaddexp(const Tensor& z, const Tensor& other);
  static Tensor lerp(const Tensor& z, const Tensor& end, const Tensor& weight);
  static Tensor addcdiv(const Tensor& z, const Tensor& tensor1, const Tensor& tensor2,
                        Scalar value);
};

}  // namespace tensora
