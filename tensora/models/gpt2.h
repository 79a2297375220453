#pragma once

#include "tensora/models/generate.h"
#include "tensora/models/llama.h"

namespace tensora::models {

/// The shape of a GPT-2, under the names of Hugging Face's config.json.
struct GPT2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // 4 n_embd if 0
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  std::string activation_function = "gelu_new";  // tanh's approximation; or "gelu"

  bool operator==(const GPT2Config&) const = default;

  static GPT2Config from_json(const std::string& text);
  std::string to_json() const;
  /// "tiny", "mini" (the 10 M of a character model), "gpt2" (124 M), "gpt2-medium", "gpt2-large",
  /// "gpt2-xl".
  static GPT2Config preset(const std::string& name);
  void check_valid() const;
};

class GPT2Attention : public nn::Layer<GPT2Attention> {
 public:
  explicit GPT2Attention(const GPT2Config& config);
  Tensor forward(const Tensor& input /* B T n_embd */, const nn::AttentionStep& step = {}) const;

  int64_t num_heads;
  double dropout;
  nn::Linear c_attn, c_proj;
};

class GPT2MLP : public nn::Layer<GPT2MLP> {
 public:
  explicit GPT2MLP(const GPT2Config& config);
  Tensor forward(const Tensor& input /* … n_embd */) const;

  std::string activation;
  nn::Linear c_fc, c_proj;
};

/// Norms run in one pass with the sums before them, so hooks on them are not called.
class GPT2Block : public nn::Layer<GPT2Block> {
 public:
  explicit GPT2Block(const GPT2Config& config);
  /// On `sum` + dropout(`branch`); returns such a pair. See TransformerBlock::forward_parts.
  std::tuple<Tensor, Tensor> forward(const Tensor& sum, const Tensor& branch,
                                     const nn::AttentionStep& step = {}) const;

  double dropout;
  nn::LayerNorm ln_1;
  GPT2Attention attn;
  nn::LayerNorm ln_2;
  GPT2MLP mlp;
};

/// The model without its head, "transformer." in the names.
class GPT2Body : public nn::Layer<GPT2Body> {
 public:
  explicit GPT2Body(const GPT2Config& config);
  Tensor forward(const Tensor& tokens /* B T */, nn::KVCache* cache, bool checkpointed) const;

  double embd_pdrop, resid_pdrop;
  nn::Embedding wte, wpe;
  nn::ModuleList<GPT2Block> h;
  nn::LayerNorm ln_f;
};

/// GPT-2 with Hugging Face's names of parameters; the head is the embedding's matrix. Matrices are
/// stored as Linear's, out × in; `load_pretrained` turns those of Hugging Face's files.
class GPT2 : public nn::Layer<GPT2> {
 public:
  explicit GPT2(GPT2Config config = {});

  /// Logits B T V of tokens B T.
  Tensor forward(const Tensor& tokens) const;
  /// The mean cross-entropy of `targets` (B T; -100: does not count); the logits are never all in
  /// memory.
  Tensor forward(const Tensor& tokens, const Tensor& targets) const;
  /// Continues the text in the cache, which grows by T positions; no gradients.
  Tensor forward_cached(const Tensor& tokens, nn::KVCache& cache, CachedOptions options = {}) const;
  /// Continues a prompt B T, in eval mode; prompt and continuation fit into n_positions.
  Tensor generate(const Tensor& prompt, const GenerateOptions& options = {});

  void reset_parameters();
  const GPT2Config& config() const { return config_; }

  GPT2Body transformer;
  /// Blocks keep their inputs only, and are computed again in the backward.
  bool checkpoint_activations = false;

 private:
  GPT2Config config_;
};

}  // namespace tensora::models
