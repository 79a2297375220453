#include "tensora/nn/transformer.h"

#include <limits>

#include "tensora/base/check.h"
#include "tensora/nn/init.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace {

TransformerLayerOptions layer_options(const TransformerOptions& o) {
  return {.dim_feedforward = o.dim_feedforward,
          .dropout = o.dropout,
          .activation = o.activation,
          .layer_norm_eps = o.layer_norm_eps,
          .batch_first = o.batch_first,
          .norm_first = o.norm_first,
          .bias = o.bias};
}

LayerNorm last_norm(const TransformerOptions& o) {
  return LayerNorm({o.d_model}, {.eps = o.layer_norm_eps, .bias = o.bias});
}

}  // namespace

Transformer::Transformer(TransformerOptions given)
    : options(std::move(given)),
      encoder(register_module(
          "encoder", TransformerEncoder(TransformerEncoderLayer(options.d_model, options.nhead,
                                                                layer_options(options)),
                                        options.num_encoder_layers, last_norm(options)))),
      decoder(register_module(
          "decoder", TransformerDecoder(TransformerDecoderLayer(options.d_model, options.nhead,
                                                                layer_options(options)),
                                        options.num_decoder_layers, last_norm(options)))) {
  reset_parameters();
}

void Transformer::reset_parameters() {
  for (const Tensor& parameter : parameters())
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt,
                            const TransformerCall& call) const {
  check(
      src.dim() == tgt.dim() && src.size(-1) == options.d_model && tgt.size(-1) == options.d_model,
      "Transformer: expected src and tgt with ", options.d_model, " features, got shapes ",
      src.sizes(), " and ", tgt.sizes());
  const Tensor memory = encoder(
      src, TransformerEncoderCall{call.src_mask, call.src_key_padding_mask, call.src_is_causal});
  return decoder(tgt, memory,
                 TransformerDecoderCall{call.tgt_mask, call.memory_mask, call.tgt_key_padding_mask,
                                        call.memory_key_padding_mask, call.tgt_is_causal,
                                        call.memory_is_causal});
}

Tensor Transformer::generate_square_subsequent_mask(int64_t size, const TensorOptions& options) {
  check(size >= 0, "generate_square_subsequent_mask: the size must not be negative, got ", size);
  const double infinite = std::numeric_limits<double>::infinity();
  return full({size, size}, -infinite, options).triu(1);
}

}  // namespace tensora::nn
