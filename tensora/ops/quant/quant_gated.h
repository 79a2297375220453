#pragma once

#include "tensora/core/tensor.h"
#include "tensora/ops/matrix/linear_activation.h"

namespace tensora {

struct QuantGatedOptions {
  Activation activation = Activation::silu;  // or gelu_tanh
  Tensor gate_scale = {}, up_scale = {};     // float32 [N], for int8 and float8_e4m3fn
  std::optional<DType> dtype = {};           // of the result; by default that of x
  Tensor norm = {};                          // as for quant_linear
  double eps = 1e-5;                         // of the norm
};

/// activation(x gateᵀ) * (x upᵀ), the gated half of a feed-forward layer. x: … K; gate, up: N K, of
/// any dtype that quant_linear takes; the result: … N. No gradient.
Tensor quant_gated(const Tensor& x, const Tensor& gate, const Tensor& up,
                   const QuantGatedOptions& options = {});

}  // namespace tensora
