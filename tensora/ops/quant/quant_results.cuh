#pragma once

// Internal header
// What becomes of a product of activations and weights.

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/ops/quant/few_rows.h"

namespace tensora::cuda {

// A number of float32, float16 or bfloat16.
__device__ inline float any_number(const void* from, DType dtype, int64_t i) {
  if (dtype == DType::float32) return static_cast<const float*>(from)[i];
  if (dtype == DType::float16) return static_cast<float>(static_cast<const Half*>(from)[i]);
  return static_cast<float>(static_cast<const BFloat16*>(from)[i]);
}
__device__ inline void store_number(void* to, DType dtype, int64_t i, float value) {
  if (dtype == DType::float32)
    static_cast<float*>(to)[i] = value;
  else if (dtype == DType::float16)
    static_cast<Half*>(to)[i] = store_value<Half>(value);
  else
    static_cast<BFloat16*>(to)[i] = store_value<BFloat16>(value);
}

__device__ inline float activated(float x, RowsCall::Gate gate) {
  if (gate == RowsCall::Gate::silu) return x / (1.0f + __expf(-x));
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x / (1.0f + __expf(-2.0f * inner));  // (1 + tanh(y)) / 2 = 1 / (1 + e^-2y)
}

/// What is added to the product of a row of activations with weight row `n`.
__device__ inline float residual_of(const RowsCall& call, const RowsWeight& weight, int row,
                                    int n) {
  return call.residual ? any_number(call.residual, call.residual_dtype,
                                    int64_t{row} * call.columns + weight.column + n)
                       : 0.0f;
}

/// Stores that product; `up` is the one with the second matrix, in gated calls.
__device__ inline void store_product(const RowsCall& call, const RowsWeight& weight, int row, int n,
                                     float sum, float up, float residual) {
  if (weight.scale) sum *= weight.scale[n];
  if (call.gate != RowsCall::Gate::none) {
    if (weight.up_scale) up *= weight.up_scale[n];
    sum = activated(sum, call.gate) * up;
  }
  if (call.bias) sum += any_number(call.bias, call.bias_dtype, weight.column + n);
  store_number(call.out, call.out_dtype, int64_t{row} * call.columns + weight.column + n,
               sum + residual);
}

__device__ inline int weight_of_tile(const RowsCall& call, int tile) {
  int i = 0;
  while (i + 1 < call.count && tile >= call.weights[i + 1].first_tile) ++i;
  return i;
}

}  // namespace tensora::cuda
