#include "tensora/nn/feed_forward_swiglu.h"

#include "tensora/ops.h"

namespace tensora::nn {

FeedForwardSwiGLU::FeedForwardSwiGLU(int64_t dim, int64_t hidden, FeedForwardSwiGLUOptions options)
    : gate_proj(register_module("gate_proj", Linear(dim, hidden, {.bias = options.bias}))),
      up_proj(register_module("up_proj", Linear(dim, hidden, {.bias = options.bias}))),
      down_proj(register_module("down_proj", Linear(hidden, dim, {.bias = options.bias}))) {}

Tensor FeedForwardSwiGLU::forward(const Tensor& input) const {
  return down_proj(swiglu(gate_proj(input), up_proj(input)));
}

}  // namespace tensora::nn
