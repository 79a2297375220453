#include "tensora/nn/feed_forward_swiglu.h"

#include "tensora/ops.h"
#include "tensora/ops/matrix/linear_group_op.h"

namespace tensora::nn {

FeedForwardSwiGLU::FeedForwardSwiGLU(int64_t dim, int64_t hidden, FeedForwardSwiGLUOptions options)
    : gate_proj(register_module("gate_proj", Linear(dim, hidden, {.bias = options.bias}))),
      up_proj(register_module("up_proj", Linear(dim, hidden, {.bias = options.bias}))),
      down_proj(register_module("down_proj", Linear(hidden, dim, {.bias = options.bias}))) {}

Tensor FeedForwardSwiGLU::forward(const Tensor& input) const {
  const auto is_plain = [](const Linear& layer) {
    return !layer.bias.defined() && !(layer.*&FeedForwardSwiGLU::has_hooks)();
  };
  if (!is_plain(gate_proj) || !is_plain(up_proj))
    return down_proj(swiglu(gate_proj(input), up_proj(input)));
  const std::vector<Tensor> both =
      linear_group(input, std::vector<Tensor>{gate_proj.weight, up_proj.weight});
  return down_proj(swiglu(both[0], both[1]));
}

}  // namespace tensora::nn
