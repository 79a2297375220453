#include "tensora/libtorch/nn/modules_transformer.h"

namespace torch::nn {

namespace {

tensora::nn::TransformerLayerOptions layer_options(const TransformerEncoderLayerOptions& options) {
  return {.dim_feedforward = options.dim_feedforward(),
          .dropout = options.dropout(),
          .activation = std::string(options.activation().text)};
}

tensora::nn::TransformerDecoderCall decoder_call(const Tensor& tgt_mask, const Tensor& memory_mask,
                                                 const Tensor& tgt_key_padding_mask,
                                                 const Tensor& memory_key_padding_mask) {
  return {.tgt_mask = tgt_mask,
          .memory_mask = memory_mask,
          .tgt_key_padding_mask = tgt_key_padding_mask,
          .memory_key_padding_mask = memory_key_padding_mask};
}

}  // namespace

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(
    const TransformerEncoderLayerOptions& options_given)
    : options(options_given) {
  reset();
}
void TransformerEncoderLayerImpl::reset() {
  layer_.emplace(options.d_model(), options.nhead(), layer_options(options));
  adopt(*layer_);
}
void TransformerEncoderLayerImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::TransformerEncoderLayer";
}
Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask) {
  return layer_->forward(src, {.mask = src_mask, .src_key_padding_mask = src_key_padding_mask});
}

TransformerDecoderLayerImpl::TransformerDecoderLayerImpl(
    const TransformerDecoderLayerOptions& options_given)
    : options(options_given) {
  reset();
}
void TransformerDecoderLayerImpl::reset() {
  layer_.emplace(options.d_model(), options.nhead(), layer_options(options));
  adopt(*layer_);
}
void TransformerDecoderLayerImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::TransformerDecoderLayer";
}
Tensor TransformerDecoderLayerImpl::forward(const Tensor& tgt, const Tensor& memory,
                                            const Tensor& tgt_mask, const Tensor& memory_mask,
                                            const Tensor& tgt_key_padding_mask,
                                            const Tensor& memory_key_padding_mask) {
  return layer_->forward(
      tgt, memory,
      decoder_call(tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask));
}

TransformerEncoderImpl::TransformerEncoderImpl(TransformerEncoderOptions options_given)
    : options(std::move(options_given)) {
  reset();
}
void TransformerEncoderImpl::reset() {
  layer_.emplace(options.encoder_layer()->layer(), options.num_layers());
  adopt(*layer_);
  if (options.norm().is_empty()) return;
  options.norm(options.norm().clone());
  register_module("norm", options.norm().ptr());
}
void TransformerEncoderImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::TransformerEncoder";
}
Tensor TransformerEncoderImpl::forward(const Tensor& src, const Tensor& src_mask,
                                       const Tensor& src_key_padding_mask) {
  const Tensor output =
      layer_->forward(src, {.mask = src_mask, .src_key_padding_mask = src_key_padding_mask});
  return options.norm().is_empty() ? output : options.norm().forward(output);
}

TransformerDecoderImpl::TransformerDecoderImpl(TransformerDecoderOptions options_given)
    : options(std::move(options_given)) {
  reset();
}
void TransformerDecoderImpl::reset() {
  layer_.emplace(options.decoder_layer()->layer(), options.num_layers());
  adopt(*layer_);
  if (options.norm().is_empty()) return;
  options.norm(options.norm().clone());
  register_module("norm", options.norm().ptr());
}
void TransformerDecoderImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::TransformerDecoder";
}
Tensor TransformerDecoderImpl::forward(const Tensor& tgt, const Tensor& memory,
                                       const Tensor& tgt_mask, const Tensor& memory_mask,
                                       const Tensor& tgt_key_padding_mask,
                                       const Tensor& memory_key_padding_mask) {
  const Tensor output = layer_->forward(
      tgt, memory,
      decoder_call(tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask));
  return options.norm().is_empty() ? output : options.norm().forward(output);
}

TransformerImpl::TransformerImpl(const TransformerOptions& options_given) : options(options_given) {
  reset();
}
void TransformerImpl::reset() {
  layer_.emplace(
      tensora::nn::TransformerOptions{.d_model = options.d_model(),
                                      .nhead = options.nhead(),
                                      .num_encoder_layers = options.num_encoder_layers(),
                                      .num_decoder_layers = options.num_decoder_layers(),
                                      .dim_feedforward = options.dim_feedforward(),
                                      .dropout = options.dropout(),
                                      .activation = std::string(options.activation().text)});
  adopt(*layer_);
}
void TransformerImpl::reset_parameters() { layer_->reset_parameters(); }
void TransformerImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Transformer";
}
Tensor TransformerImpl::forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask,
                                const Tensor& tgt_mask, const Tensor& memory_mask,
                                const Tensor& src_key_padding_mask,
                                const Tensor& tgt_key_padding_mask,
                                const Tensor& memory_key_padding_mask) {
  return layer_->forward(src, tgt,
                         {.src_mask = src_mask,
                          .tgt_mask = tgt_mask,
                          .memory_mask = memory_mask,
                          .src_key_padding_mask = src_key_padding_mask,
                          .tgt_key_padding_mask = tgt_key_padding_mask,
                          .memory_key_padding_mask = memory_key_padding_mask});
}
Tensor TransformerImpl::generate_square_subsequent_mask(int64_t size) {
  return tensora::nn::Transformer::generate_square_subsequent_mask(size);
}

}  // namespace torch::nn
