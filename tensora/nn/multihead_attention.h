#pragma once

#include "tensora/nn/linear.h"

namespace tensora::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, in training
  bool bias = true;
  bool add_bias_kv = false;    // a learned key and value behind those of the sequence
  bool add_zero_attn = false;  // a key and a value of zeros behind them
  int64_t kdim = 0, vdim = 0;  // features of key and value; embed_dim if 0
  bool batch_first = false;
};

/// What a call of MultiheadAttention takes besides its sequences. L: queries, S: keys.
struct MultiheadAttentionCall {
  Tensor key_padding_mask = {};  // B S: bool, true where a key does not count; or added
  bool need_weights = true;      // false is faster: the weights are then never in memory
  Tensor attn_mask = {};         // L S or B * num_heads L S: bool, true where not allowed; or added
  bool average_attn_weights = true;
  bool is_causal = false;  // query i meets keys 0 … i; then without attn_mask
};

/// PyTorch's attention layer: query, key and value are projected, attended to in `num_heads` heads,
/// and projected again. Sequences are L B E, or B L E if `batch_first`, or L E without a batch.
class MultiheadAttention : public Layer<MultiheadAttention> {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, MultiheadAttentionOptions options = {});

  /// The result, shaped like the query, and the attention weights: B L S, their mean over the
  /// heads, or B num_heads L S; undefined without `need_weights`.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const MultiheadAttentionCall& call = {}) const;
  void reset_parameters();
  /// As in PyTorch, only the last projection is shown.
  std::string extra_repr() const override { return {}; }

  int64_t embed_dim, num_heads;
  MultiheadAttentionOptions options;
  Parameter in_proj_weight;                               // 3 E, E: of one size for all three
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // E, features: of different sizes
  Parameter in_proj_bias;                                 // 3 E
  Parameter bias_k, bias_v;                               // 1, 1, E
  Linear out_proj;

 private:
  struct Heads {
    Tensor query, key, value;  // B H L D, B H S D, B H S D
  };
  void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Heads project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void extend(Heads& heads, Tensor& mask) const;
  Tensor mask_of(const MultiheadAttentionCall& call, int64_t batch, int64_t queries,
                 int64_t keys) const;
};

}  // namespace tensora::nn
