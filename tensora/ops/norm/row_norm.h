#pragma once

// Internal header: the ops of layer_norm and rms_norm, which share their kernels. A row is what
// the last dims, `normalized_shape`, hold together.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct LayerNormAttrs {
  Shape normalized_shape;
  double eps = 1e-5;
};
constexpr auto describe(std::type_identity<LayerNormAttrs>) {
  using A = LayerNormAttrs;
  return fields(field("normalized_shape", &A::normalized_shape), field("eps", &A::eps));
}

struct RmsNormAttrs {
  Shape normalized_shape;
  std::optional<double> eps = {};  // the epsilon of the type that is computed in
};
constexpr auto describe(std::type_identity<RmsNormAttrs>) {
  using A = RmsNormAttrs;
  return fields(field("normalized_shape", &A::normalized_shape), field("eps", &A::eps));
}

struct AddNormAttrs {
  Shape normalized_shape;
  std::optional<double> eps = {};
  double p = 0;  // of dropping an element of the input; the others are multiplied by 1 / (1 - p)
  uint64_t seed = 0, offset = 0;
  std::optional<DType> dtype = {};  // of the result; the sum's unless given
};
constexpr auto describe(std::type_identity<AddNormAttrs>) {
  using A = AddNormAttrs;
  return fields(field("normalized_shape", &A::normalized_shape), field("eps", &A::eps),
                field("p", &A::p), field("seed", &A::seed), field("offset", &A::offset),
                field("dtype", &A::dtype));
}

struct NormBackwardAttrs {
  Shape normalized_shape;
  bool weight = false, bias = false;  // whether their gradients are wanted
  double p = 0;
  uint64_t seed = 0, offset = 0;
  std::optional<DType> input_dtype = {};  // if not that of x

  /// Whether the gradient of the input is another array than that of x.
  bool apart() const { return p > 0 || input_dtype; }
};
constexpr auto describe(std::type_identity<NormBackwardAttrs>) {
  using A = NormBackwardAttrs;
  return fields(field("normalized_shape", &A::normalized_shape),
                field("weight_gradient", &A::weight), field("bias_gradient", &A::bias),
                field("p", &A::p), field("seed", &A::seed), field("offset", &A::offset),
                field("input_dtype", &A::input_dtype));
}

// The mean and the reciprocal of the deviation (of the root mean square) of each row are outputs
// too, in float32, or float64 for a float64 input; the normalized dims have size 1 there.

/// (input, weight?, bias?) -> (result, mean, rstd)
extern OpDef<LayerNormAttrs> layer_norm_op;
/// (input, weight?) -> (result, rstd)
extern OpDef<RmsNormAttrs> rms_norm_op;
/// (input, residual, weight?, bias?, input_bias?) -> (result, sum, mean, rstd); the sum has the
/// residual's dtype, which is at least as wide as the input's.
extern OpDef<AddNormAttrs> add_layer_norm_op;
/// (input, residual, weight?, input_bias?) -> (result, sum, rstd)
extern OpDef<AddNormAttrs> add_rms_norm_op;
/// (grad, x, mean?, rstd, weight?, grad_of_sum?) -> the gradients of x, where it is apart of the
/// input, and of weight and bias where wanted. Without a mean, of rms_norm.
extern OpDef<NormBackwardAttrs> norm_backward_op;

/// What is added to the mean square.
double rms_eps(std::optional<double> eps, DType dtype);

}  // namespace tensora
