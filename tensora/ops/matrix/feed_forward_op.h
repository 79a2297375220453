#pragma once

// Internal header: the two layers between which an activation stands.

#include "tensora/ops/matrix/linear_activation.h"

namespace tensora {

struct FeedForwardAttrs {
  Activation activation = Activation::none;
  bool keep_argument = false;  // a third output: what the activation was applied to
};
/// (input [m, k], weight1 [h, k], weight2 [n, h], bias1? [h], bias2? [n]) -> the result [m, n] and
/// the activated layer [m, h], which the gradient needs. As one op, because in the backward the
/// product with weight2 and the activation's gradient are one pass.
extern OpDef<FeedForwardAttrs> feed_forward_op;
/// (grad [m, n], weight2 [n, h], argument [m, h]) -> (grad @ weight2) * gelu'(argument), for the
/// tanh form of gelu.
extern OpDef<NoAttrs> gelu_gradient_product_op;

/// linear(linear_activation(input, weight1, bias1, activation), weight2, bias2); biases may be
/// undefined.
Tensor feed_forward(const Tensor& input, const Tensor& weight1, const Tensor& bias1,
                    const Tensor& weight2, const Tensor& bias2, std::string_view activation);

}  // namespace tensora
