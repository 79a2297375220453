#pragma once

#include "tensora/nn/layer_norm.h"
#include "tensora/nn/module_list.h"
#include "tensora/nn/multihead_attention.h"

namespace tensora::nn {

/// Of TransformerEncoderLayer and TransformerDecoderLayer.
struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or "gelu", "gelu_tanh", "silu", …: see linear_activation
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // norms before attention and feed-forward instead of behind them
  bool bias = true;
};

struct TransformerEncoderCall {
  Tensor mask = {};                  // T T or B * nhead T T, as MultiheadAttention takes it
  Tensor src_key_padding_mask = {};  // B T
  bool is_causal = false;            // without `mask`: each position meets those up to itself
};

/// PyTorch's layer: self-attention and a feed-forward network, each added to its input and
/// normalised. Norms run in one pass with the sums before them, so hooks on them are not called.
class TransformerEncoderLayer : public Layer<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, TransformerLayerOptions options = {});

  Tensor forward(const Tensor& src, const TransformerEncoderCall& call = {}) const;

  TransformerLayerOptions options;
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
};

/// Copies of a layer, one after the other, and a norm behind them if given.
class TransformerEncoder : public Layer<TransformerEncoder> {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {});

  Tensor forward(const Tensor& src, const TransformerEncoderCall& call = {}) const;

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

namespace detail {
/// linear2(dropout(activation(linear1(x)))).
Tensor feed_forward(const Linear& linear1, const Linear& linear2, const Tensor& x,
                    const TransformerLayerOptions& options, bool training);
}  // namespace detail

}  // namespace tensora::nn
