#pragma once

// Internal header: batch_norm in training with what follows it in a residual network.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct BatchNormReluAttrs {
  double eps = 1e-5;
};
constexpr auto describe(std::type_identity<BatchNormReluAttrs>) {
  return fields(field("eps", &BatchNormReluAttrs::eps));
}
/// (input, weight, bias, residual?) -> relu(batch_norm(input) + residual), and the statistics as
/// batch_norm_op has them.
extern OpDef<BatchNormReluAttrs> batch_norm_relu_op;
/// (grad, input, mean, var, weight, bias, result?) -> the gradients of input, weight and bias, and
/// of the residual where there was one. Without it, whether the result is positive follows from
/// the input, and the result is not read.
extern OpDef<BatchNormReluAttrs> batch_norm_relu_backward_op;

/// The result, with the running statistics moved; all tensors but `residual` are needed.
Tensor batch_norm_relu(const Tensor& input, const Tensor& residual, const Tensor& running_mean,
                       const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                       double momentum, double eps);

}  // namespace tensora
