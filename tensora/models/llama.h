#pragma once

#include <memory>

#include "tensora/models/generate.h"
#include "tensora/models/llama_config.h"
#include "tensora/nn/embedding.h"
#include "tensora/nn/module_list.h"
#include "tensora/nn/transformer_block.h"

namespace tensora::models {

/// Whose logits a call with a cache returns.
struct CachedOptions {
  bool all_positions = false;  // B T V instead of B V, those of the last position
};

/// The model without its head, "model." in the names.
class LLaMABody : public nn::Layer<LLaMABody> {
 public:
  explicit LLaMABody(const LLaMAConfig& config);

  /// The normalised hidden states B T hidden_size.
  Tensor forward(const Tensor& tokens /* B T */, nn::KVCache* cache, bool checkpointed) const;

  nn::Embedding embed_tokens;
  nn::ModuleList<nn::TransformerBlock> layers;
  nn::RMSNorm norm;
};

/// Makes logits and the loss from hidden states where the rows of the head's weight are divided
/// over ranks; see distributed::shard_model.
class ParallelHead {
 public:
  virtual ~ParallelHead() = default;
  /// hidden: … hidden_size; weight: this rank's rows. The logits of the whole vocabulary.
  virtual Tensor logits(const Tensor& hidden, const Tensor& weight) const = 0;
  /// The mean cross-entropy of `targets`, the same on all ranks.
  virtual Tensor loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets) const = 0;
};

/// LLaMA and its relatives (Mistral, Qwen2, Qwen3), with Hugging Face's names of parameters.
///
///     models::LLaMA model(models::LLaMAConfig::preset("tiny"));
///     model(tokens, targets).backward();
///     Tensor text = model.generate(prompt, {.max_new_tokens = 100, .top_k = 50});
class LLaMA : public nn::Layer<LLaMA> {
 public:
  explicit LLaMA(LLaMAConfig config);

  /// Logits B T V of tokens B T.
  Tensor forward(const Tensor& tokens) const;
  /// The mean cross-entropy of `targets` (B T; -100: does not count); the logits are never all in
  /// memory.
  Tensor forward(const Tensor& tokens, const Tensor& targets) const;
  /// Continues the text in the cache, which grows by T positions; no gradients.
  Tensor forward_cached(const Tensor& tokens, nn::KVCache& cache, CachedOptions options = {}) const;
  /// Continues a prompt B T, in eval mode.
  Tensor generate(const Tensor& prompt, const GenerateOptions& options = {});

  void reset_parameters();
  const LLaMAConfig& config() const { return config_; }
  /// The matrix V × hidden_size that makes logits: that of the embedding, if tied.
  const Tensor& head_weight() const;
  /// Replaces the product with the head's weight, in all handles to this model; null: undoes it.
  void set_parallel_head(std::shared_ptr<const ParallelHead> head) { *parallel_head_ = head; }

  LLaMABody model;
  std::optional<nn::Linear> lm_head;  // none if tied
  /// The feed-forward halves of the blocks, two thirds of what a step keeps, are computed again in
  /// the backward.
  bool checkpoint_activations = false;

 private:
  Tensor logits(const Tensor& hidden) const;

  LLaMAConfig config_;
  std::shared_ptr<std::shared_ptr<const ParallelHead>> parallel_head_ =
      std::make_shared<std::shared_ptr<const ParallelHead>>();  // shared by all handles
};

}  // namespace tensora::models
