#include "tensora/nn/transformer_encoder.h"

#include "tensora/base/check.h"
#include "tensora/nn/transformer_block.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace detail {

Tensor feed_forward(const Linear& linear1, const Linear& linear2, const Tensor& x,
                    const TransformerLayerOptions& options, bool training) {
  const Tensor hidden = linear_activation(x, linear1.weight, linear1.bias, options.activation);
  return linear2(dropout(hidden, options.dropout, training));
}

}  // namespace detail

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 TransformerLayerOptions given)
    : options(std::move(given)),
      self_attn(
          register_module("self_attn", MultiheadAttention(d_model, nhead,
                                                          {.dropout = options.dropout,
                                                           .bias = options.bias,
                                                           .batch_first = options.batch_first}))),
      linear1(register_module("linear1",
                              Linear(d_model, options.dim_feedforward, {.bias = options.bias}))),
      linear2(register_module("linear2",
                              Linear(options.dim_feedforward, d_model, {.bias = options.bias}))),
      norm1(register_module(
          "norm1", LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      norm2(register_module(
          "norm2", LayerNorm({d_model}, {.eps = options.layer_norm_eps, .bias = options.bias}))) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src,
                                        const TransformerEncoderCall& call) const {
  const double p = is_training() ? options.dropout : 0;
  const auto attend = [&](const Tensor& x) {
    return std::get<0>(
        self_attn(x, x, x,
                  MultiheadAttentionCall{.key_padding_mask = call.src_key_padding_mask,
                                         .need_weights = false,
                                         .attn_mask = call.mask,
                                         .is_causal = call.is_causal && !call.mask.defined()}));
  };
  const auto feed = [&](const Tensor& x) {
    return detail::feed_forward(linear1, linear2, x, options, is_training());
  };
  if (options.norm_first) {
    const auto [y, sum] =
        add_norm(norm2, attend(norm1(src)), src, {.dropout_p = p, .for_products = true});
    return sum + dropout(feed(y), p, p > 0);
  }
  const Tensor x = std::get<0>(add_norm(norm1, attend(src), src, {.dropout_p = p}));
  return std::get<0>(add_norm(norm2, feed(x), x, {.dropout_p = p}));
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> given)
    : layers(register_module("layers", ModuleList<TransformerEncoderLayer>())) {
  check(num_layers >= 0, "TransformerEncoder: num_layers must not be negative, got ", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) layers.push_back(layer.clone());
  if (given) norm = register_module("norm", *given);
}

Tensor TransformerEncoder::forward(const Tensor& src, const TransformerEncoderCall& call) const {
  Tensor x = src;
  for (TransformerEncoderLayer& layer : layers) x = layer(x, call);
  return norm ? (*norm)(x) : x;
}

}  // namespace tensora::nn
