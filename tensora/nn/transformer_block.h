#pragma once

#include "tensora/nn/causal_self_attention.h"
#include "tensora/nn/feed_forward_swiglu.h"

namespace tensora::nn {

struct TransformerBlockOptions {
  CausalSelfAttentionOptions attention = {};
  FeedForwardSwiGLUOptions feed_forward = {};
  double norm_eps = 1e-6;
};

/// A block as in LLaMA: x + attention(norm(x)), and to that + feed_forward(norm(…)). Its norms run
/// in one pass with the sums before them, so hooks on them are not called.
class TransformerBlock : public Layer<TransformerBlock> {
 public:
  TransformerBlock(int64_t dim, int64_t num_heads, int64_t hidden,
                   TransformerBlockOptions options = {});

  Tensor forward(const Tensor& input /* B T dim */, const AttentionStep& step = {}) const;
  /// The same on `sum` + `branch` (undefined for none), and returning such a pair: the last sum is
  /// left to the next block's norm.
  std::tuple<Tensor, Tensor> forward_parts(const Tensor& sum, const Tensor& branch,
                                           const AttentionStep& step = {}) const;

  RMSNorm input_layernorm;
  CausalSelfAttention self_attn;
  RMSNorm post_attention_layernorm;
  FeedForwardSwiGLU mlp;
};

struct AddNormOptions {
  double dropout_p = 0;  // of the branch
  /// The result is used by products only. They would round it under autocast, so it is rounded here
  /// and never written in float32.
  bool for_products = false;
};
/// norm(sum + dropout(branch)) and the sum, in one pass; `branch` may be undefined.
std::tuple<Tensor, Tensor> add_norm(const RMSNorm& norm, const Tensor& branch, const Tensor& sum,
                                    AddNormOptions options = {});
std::tuple<Tensor, Tensor> add_norm(const LayerNorm& norm, const Tensor& branch, const Tensor& sum,
                                    AddNormOptions options = {});

}  // namespace tensora::nn
