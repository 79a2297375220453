#pragma once

#include <array>

#include "tensora/dispatch/op_def.h"

namespace tensora {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu, sigmoid, tanh };
constexpr std::array<std::string_view, 7> names_of(std::type_identity<Activation>) {
  return {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"};
}

struct LinearActivationAttrs {
  Activation activation = Activation::none;
  bool keep_argument = false;  // a second output: what the activation was applied to
};
/// input: m k, weight: n k, bias: n or undefined; result: m n.
extern OpDef<LinearActivationAttrs> linear_activation_op;

/// activation(input @ weight^T + bias), with bias and activation applied while the product is in
/// cache or registers. activation: "none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid" or
/// "tanh".
Tensor linear_activation(const Tensor& input, const Tensor& weight, const Tensor& bias,
                         std::string_view activation);

}  // namespace tensora
