#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensora/nn/rotary_embedding.h"

namespace tensora::llm {

class Metadata;
class ModelFile;

/// The hyper-parameters of a decoder, read from a model's metadata (GGUF's keys) and checked: after
/// `validate` every size is positive, bounded and fits the others, so that nothing made from them
/// can overflow.
struct ModelConfig {
  std::string architecture, name;
  int64_t context_length = 0;  // what the model was trained for
  int64_t layers = 0;
  int64_t hidden_size = 0;
  int64_t feed_forward = 0;  // of one expert, if there are experts
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  /// Of a model that is divided over several ranks: the key/value heads in each one's part of the
  /// KV cache. Empty: the model is not divided.
  std::vector<int64_t> kv_heads_by_rank = {};
  int64_t vocab_size = 0;
  double norm_eps = 1e-5;

  // Attention
  double attention_scale = 0;    // of q · k
  double attention_softcap = 0;  // c · tanh(x / c); 0: none
  int64_t window = 0;            // a local layer sees this many positions; 0: no layer is local
  int64_t window_period = 1;     // the last layer of each period is global; 1: all are local
  std::vector<int64_t> local_layers = {};  // 1 for a local layer, instead of a period; or empty

  // Rotary embedding
  int64_t rotary_dim = 0;
  bool rope_in_halves = true;             // pairs (i, i + rotary_dim / 2), not (2 i, 2 i + 1)
  nn::RotaryOptions rope = {};            // of global layers
  std::optional<double> local_rope_base;  // of local layers, unscaled, where it differs

  // Ends
  double embedding_scale = 1;
  double final_softcap = 0;

  // Experts; 0: a plain feed-forward network
  int64_t experts = 0, experts_used = 0;
  bool normalize_experts = true;  // the chosen ones' weights sum to 1
  double expert_scale = 1;        // of the weights

  /// What every architecture has in common. What is special to one, its own file adds.
  static ModelConfig from(const Metadata& metadata);
  /// The same with what the file says beside its metadata.
  static ModelConfig from(const ModelFile& file);
  /// Throws and says which number is wrong and why.
  void validate() const;

  bool is_local(int64_t layer) const {
    if (window == 0) return false;
    if (!local_layers.empty()) return local_layers[static_cast<size_t>(layer)] != 0;
    return window_period <= 1 || (layer + 1) % window_period != 0;
  }
  /// Bytes of keys and values for one position, in all layers.
  int64_t cache_bytes_per_token(DType dtype) const;
};

}  // namespace tensora::llm
