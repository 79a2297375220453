#pragma once

#include "tensora/nn/transformer_decoder.h"

namespace tensora::nn {

struct TransformerOptions {
  int64_t d_model = 512, nhead = 8;
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
};

struct TransformerCall {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;  // without the masks
};

/// PyTorch's encoder and decoder. Matrices start as Xavier's uniform distribution.
class Transformer : public Layer<Transformer> {
 public:
  explicit Transformer(TransformerOptions options = {});

  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerCall& call = {}) const;
  void reset_parameters();
  /// Zeros up to the diagonal, minus infinity above it.
  static Tensor generate_square_subsequent_mask(int64_t size, const TensorOptions& options = {});

  TransformerOptions options;
  TransformerEncoder encoder;
  TransformerDecoder decoder;
};

}  // namespace tensora::nn
