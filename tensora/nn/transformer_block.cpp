#include "tensora/nn/transformer_block.h"

#include "tensora/dispatch/autocast.h"
#include "tensora/ops.h"

namespace tensora::nn {
namespace {

std::optional<DType> result_dtype(const Tensor& sum, const AddNormOptions& options) {
  const DeviceType device = sum.device().type;
  if (!options.for_products || !is_autocast_enabled(device) || sum.dtype() == kFloat64) return {};
  return autocast_dtype(device);
}

}  // namespace

std::tuple<Tensor, Tensor> add_norm(const RMSNorm& norm, const Tensor& branch, const Tensor& sum,
                                    AddNormOptions options) {
  if (!branch.defined()) return {norm(sum), sum};
  return add_rms_norm(branch, sum, norm.normalized_shape, norm.weight, norm.options.eps, {},
                      options.dropout_p, options.dropout_p > 0, result_dtype(sum, options));
}

std::tuple<Tensor, Tensor> add_norm(const LayerNorm& norm, const Tensor& branch, const Tensor& sum,
                                    AddNormOptions options) {
  if (!branch.defined()) return {norm(sum), sum};
  return add_layer_norm(branch, sum, norm.normalized_shape, norm.weight, norm.bias,
                        norm.options.eps, {}, options.dropout_p, options.dropout_p > 0,
                        result_dtype(sum, options));
}

TransformerBlock::TransformerBlock(int64_t dim, int64_t num_heads, int64_t hidden,
                                   TransformerBlockOptions options)
    : input_layernorm({dim}, {.eps = options.norm_eps}),
      self_attn(
          register_module("self_attn", CausalSelfAttention(dim, num_heads, options.attention))),
      post_attention_layernorm({dim}, {.eps = options.norm_eps}),
      mlp(register_module("mlp", FeedForwardSwiGLU(dim, hidden, options.feed_forward))) {
  register_module("input_layernorm", input_layernorm);
  register_module("post_attention_layernorm", post_attention_layernorm);
}

std::tuple<Tensor, Tensor> TransformerBlock::forward_parts(const Tensor& sum, const Tensor& branch,
                                                           const AttentionStep& step) const {
  const AddNormOptions rounded{.for_products = true};
  const auto [x, before] = add_norm(input_layernorm, branch, sum, rounded);
  const auto [y, between] = add_norm(post_attention_layernorm, self_attn(x, step), before, rounded);
  return {between, mlp(y)};
}

Tensor TransformerBlock::forward(const Tensor& input, const AttentionStep& step) const {
  const auto [sum, branch] = forward_parts(input, {}, step);
  return sum + branch;
}

}  // namespace tensora::nn
