#pragma once

#include "tensora/nn/linear.h"

namespace tensora::nn {

struct FeedForwardSwiGLUOptions {
  bool bias = false;
};

/// The feed-forward part of a LLaMA-like block: down_proj(silu(gate_proj(x)) * up_proj(x)).
class FeedForwardSwiGLU : public Layer<FeedForwardSwiGLU> {
 public:
  FeedForwardSwiGLU(int64_t dim, int64_t hidden, FeedForwardSwiGLUOptions options = {});

  Tensor forward(const Tensor& input /* … dim */) const;

  Linear gate_proj, up_proj, down_proj;
};

}  // namespace tensora::nn
