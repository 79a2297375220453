#pragma once

#include "tensora/nn/transformer_encoder.h"

namespace tensora::nn {

struct TransformerDecoderCall {
  Tensor tgt_mask = {}, memory_mask = {};
  Tensor tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;  // without the masks
};

/// PyTorch's layer: self-attention, attention to `memory` and a feed-forward network.
class TransformerDecoderLayer : public Layer<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, TransformerLayerOptions options = {});

  Tensor forward(const Tensor& tgt, const Tensor& memory,
                 const TransformerDecoderCall& call = {}) const;

  TransformerLayerOptions options;
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
};

/// Copies of a layer, one after the other, and a norm behind them if given.
class TransformerDecoder : public Layer<TransformerDecoder> {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {});

  Tensor forward(const Tensor& tgt, const Tensor& memory,
                 const TransformerDecoderCall& call = {}) const;

  ModuleList<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

}  // namespace tensora::nn
