#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensora/nn/rotary_embedding.h"

namespace tensora::models {

/// The shape of a LLaMA-like model, under the names of Hugging Face's config.json.
struct LLaMAConfig {
  std::string model_type = "llama";  // or mistral, qwen2, qwen3
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // num_attention_heads if 0
  int64_t head_dim = 0;             // hidden_size / num_attention_heads if 0
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  nn::RopeScaling rope_scaling = {};
  bool tie_word_embeddings = false;
  bool attention_bias = false;      // of query, key and value
  bool attention_out_bias = false;  // of what follows them
  bool mlp_bias = false;
  bool qk_norm = false;  // each head of query and key is normalised
  std::optional<int64_t> sliding_window = {};
  double attention_dropout = 0;
  double initializer_range = 0.02;
  std::optional<int64_t> bos_token_id = {};
  std::vector<int64_t> eos_token_ids = {};

  bool operator==(const LLaMAConfig&) const = default;

  /// The contents of a config.json; what is not said there has the model type's default. Throws
  /// where it describes something else than this model, such as another activation.
  static LLaMAConfig from_json(const std::string& text);
  static LLaMAConfig from_file(const std::string& path);
  std::string to_json() const;

  /// "tiny" (2.4 M parameters with 4096 tokens), "small" (about 25 M), "llama-3.2-1b",
  /// "llama-3-8b".
  static LLaMAConfig preset(const std::string& name);
  void check_valid() const;
};

}  // namespace tensora::models
