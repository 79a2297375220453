#pragma once

#include "tensora/core/tensor.h"
#include "tensora/ops/matrix/linear_activation.h"

namespace tensora {

struct QuantExpertsOptions {
  Activation activation = Activation::silu;  // or gelu_tanh
  /// float32, one number per row of the matrix, for int8 and float8_e4m3fn.
  Tensor gate_scale = {}, up_scale = {}, down_scale = {};
  Tensor residual = {};             // of the result's shape, added
  std::optional<DType> dtype = {};  // of the result; by default that of x
};

/// The feed-forward layer of a mixture of experts: for each token the sum over its chosen experts
/// of weight * down(activation(gate(x)) * up(x)).
/// x: T K, of float32, float16 or bfloat16; chosen: int64 [T, used], experts in [0, E); weights:
/// float32 [T, used]; gate and up: [E * N, K], down: [E * M, N], the matrices of all experts one
/// below the other, each of any dtype that quant_linear takes; the result: T M. On CUDA the host
/// does not wait for the choice, and does not check it. Between the products numbers may be rounded
/// to 16 bits. No gradient.
Tensor quant_experts(const Tensor& x, const Tensor& chosen, const Tensor& weights,
                     const Tensor& gate, const Tensor& up, const Tensor& down, int64_t experts,
                     const QuantExpertsOptions& options = {});

}  // namespace tensora
