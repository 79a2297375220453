#pragma once

// Internal header: the ops of batch_norm. Channels are dim 1.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct BatchNormAttrs {
  bool training = false;  // with the statistics of the input itself
  double eps = 1e-5;
};
constexpr auto describe(std::type_identity<BatchNormAttrs>) {
  return fields(field("training", &BatchNormAttrs::training), field("eps", &BatchNormAttrs::eps));
}

struct BatchNormBackwardAttrs {
  bool training = false;
  double eps = 1e-5;
  bool weight = false, bias = false;  // whether their gradients are wanted
};
constexpr auto describe(std::type_identity<BatchNormBackwardAttrs>) {
  using A = BatchNormBackwardAttrs;
  return fields(field("training", &A::training), field("eps", &A::eps),
                field("weight_gradient", &A::weight), field("bias_gradient", &A::bias));
}

struct BatchNormUpdateAttrs {
  double momentum = 0.1;
  int64_t count = 0;  // elements of a channel
};
constexpr auto describe(std::type_identity<BatchNormUpdateAttrs>) {
  return fields(field("momentum", &BatchNormUpdateAttrs::momentum),
                field("count", &BatchNormUpdateAttrs::count));
}

/// (input, mean?, var?, weight?, bias?) -> the result. In training mean and var are not given but
/// further outputs, in float32, or float64 for a float64 input; the variance is the biased one.
extern OpDef<BatchNormAttrs> batch_norm_op;
/// (grad, input, mean, var, weight?) -> the gradients of the input and, where wanted, of weight and
/// bias.
extern OpDef<BatchNormBackwardAttrs> batch_norm_backward_op;
/// Moves the running statistics in place towards those of an input of this shape.
void move_statistics(const Shape& input, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& mean, const Tensor& var, double momentum);
/// The gradients that reach the input through the statistics: only those of higher order do.
Tensor through_statistics(const Tensor& x, const Tensor& mean, const Tensor& grad_mean,
                          const Tensor& grad_var);
/// (running_mean, running_var, mean, var) -> the first two, moved towards the others.
extern OpDef<BatchNormUpdateAttrs> batch_norm_update_op;

}  // namespace tensora
