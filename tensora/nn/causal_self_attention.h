#pragma once

#include "tensora/nn/kv_cache.h"
#include "tensora/nn/layer_norm.h"
#include "tensora/nn/linear.h"
#include "tensora/nn/rotary_embedding.h"

namespace tensora::nn {

/// Where a call stands in a text that is continued piece by piece.
struct AttentionStep {
  KVCache* cache = nullptr;  // earlier positions, to which those of the call are added
  int64_t layer = 0;         // of the cache
  Tensor mask =
      {};  // bool, broadcasts to B H T S: true takes part; else each meets those before it
};

/// Which keys each of the last `queries` of `keys` positions meets: itself and those before it, and
/// of these the last `window`. bool, queries × keys.
Tensor causal_mask(int64_t queries, int64_t keys, std::optional<int64_t> window, Device device);

struct CausalAttentionOptions {
  std::optional<int64_t> window = {};  // how many positions, with its own, each one meets
  double dropout_p = 0;
};
/// Attention of each position to itself and the ones before it, with those in the cache. query:
/// B H T D, key and value: B G T D, where G divides H; result: B T H * D.
Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const AttentionStep& step = {}, const CausalAttentionOptions& options = {});

struct CausalSelfAttentionOptions {
  int64_t num_kv_heads = 0;  // num_heads if 0; otherwise it divides num_heads
  int64_t head_size = 0;     // dim / num_heads if 0
  bool bias = false;         // of the projections of query, key and value
  bool out_bias = false;
  std::optional<double> qk_norm_eps = {};  // each head of query and key is normalised first
  std::optional<int64_t> window = {};
  double dropout = 0;  // of the attention weights, in training
  std::optional<RotaryEmbedding> rotary = {};
};

/// Attention as in LLaMA and its relatives: grouped heads, rotary positions, a cache. The names of
/// its parameters are Hugging Face's.
class CausalSelfAttention : public Layer<CausalSelfAttention> {
 public:
  CausalSelfAttention(int64_t dim, int64_t num_heads, CausalSelfAttentionOptions options = {});

  Tensor forward(const Tensor& input /* B T dim */, const AttentionStep& step = {}) const;
  std::string extra_repr() const override;

  int64_t dim, num_heads;
  CausalSelfAttentionOptions options;  // with nothing left at 0
  Linear q_proj, k_proj, v_proj, o_proj;
  std::optional<RMSNorm> q_norm, k_norm;
};

}  // namespace tensora::nn
