#include "tensora/nn/transformer_decoder.h"

#include "tensora/base/check.h"
#include "tensora/nn/transformer_block.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace {

MultiheadAttention attention(int64_t d_model, int64_t nhead,
                             const TransformerLayerOptions& options) {
  return {
      d_model, nhead,
      MultiheadAttentionOptions{
          .dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first}};
}

LayerNorm layer_norm_of(int64_t d_model, const TransformerLayerOptions& options) {
  return LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias});
}

}  // namespace

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 TransformerLayerOptions given)
    : options(std::move(given)),
      self_attn(register_module("self_attn", attention(d_model, nhead, options))),
      multihead_attn(register_module("multihead_attn", attention(d_model, nhead, options))),
      linear1(register_module("linear1",
                              Linear(d_model, options.dim_feedforward, {.bias = options.bias}))),
      linear2(register_module("linear2",
                              Linear(options.dim_feedforward, d_model, {.bias = options.bias}))),
      norm1(register_module("norm1", layer_norm_of(d_model, options))),
      norm2(register_module("norm2", layer_norm_of(d_model, options))),
      norm3(register_module("norm3", layer_norm_of(d_model, options))) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const TransformerDecoderCall& call) const {
  const double p = is_training() ? options.dropout : 0;
  const auto to_itself = [&](const Tensor& x) {
    return std::get<0>(self_attn(
        x, x, x,
        MultiheadAttentionCall{.key_padding_mask = call.tgt_key_padding_mask,
                               .need_weights = false,
                               .attn_mask = call.tgt_mask,
                               .is_causal = call.tgt_is_causal && !call.tgt_mask.defined()}));
  };
  const auto to_memory = [&](const Tensor& x) {
    return std::get<0>(multihead_attn(
        x, memory, memory,
        MultiheadAttentionCall{.key_padding_mask = call.memory_key_padding_mask,
                               .need_weights = false,
                               .attn_mask = call.memory_mask,
                               .is_causal = call.memory_is_causal && !call.memory_mask.defined()}));
  };
  const auto feed = [&](const Tensor& x) {
    return detail::feed_forward(linear1, linear2, x, options, is_training());
  };
  if (options.norm_first) {
    const auto [x, first] =
        add_norm(norm2, to_itself(norm1(tgt)), tgt, {.dropout_p = p, .for_products = true});
    const auto [y, second] =
        add_norm(norm3, to_memory(x), first, {.dropout_p = p, .for_products = true});
    return second + dropout(feed(y), p, p > 0);
  }
  const Tensor x = std::get<0>(add_norm(norm1, to_itself(tgt), tgt, {.dropout_p = p}));
  const Tensor y = std::get<0>(add_norm(norm2, to_memory(x), x, {.dropout_p = p}));
  return std::get<0>(add_norm(norm3, feed(y), y, {.dropout_p = p}));
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> given)
    : layers(register_module("layers", ModuleList<TransformerDecoderLayer>())) {
  check(num_layers >= 0, "TransformerDecoder: num_layers must not be negative, got ", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) layers.push_back(layer.clone());
  if (given) norm = register_module("norm", *given);
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const TransformerDecoderCall& call) const {
  Tensor x = tgt;
  for (TransformerDecoderLayer& layer : layers) x = layer(x, memory, call);
  return norm ? (*norm)(x) : x;
}

}  // namespace tensora::nn
