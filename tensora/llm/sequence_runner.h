#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tensora/llm/batch_builder.h"
#include "tensora/llm/model.h"
#include "tensora/llm/step_graphs.h"

namespace tensora::llm {

struct SequenceRunnerOptions {
  int64_t sequences = 1;
  int64_t context = 2048;  // of each
  int64_t max_batch_tokens = 512;
  int64_t block_size = 32;
  std::optional<DType> cache_dtype = {};  // the model's choice unless given
  bool generates = false;                 // whether `generate` will be called
};

/// Computes given tokens of a fixed number of sequences, without requests, sampling or a thread of
/// its own: for benchmarks, perplexity, embeddings and drafts.
class SequenceRunner {
 public:
  enum class Rows : uint8_t { none, last, all };  // of each part, whose results are wanted
  struct Part {
    int64_t sequence = 0;
    std::span<const int32_t> tokens;
  };

  SequenceRunner(std::shared_ptr<const Model> model, const SequenceRunnerOptions& options);

  /// Appends the parts to their sequences in one step; at most max_batch_tokens in all. Float32
  /// logits [rows, vocab_size], which the next call may overwrite.
  Tensor forward(std::span<const Part> parts, Rows rows);
  /// The same for the hidden states.
  Tensor hidden(std::span<const Part> parts, Rows rows);
  /// Appends a token to each sequence, then those that the model finds most likely, `count` in all,
  /// by steps that are queued at once. Returns what would come next.
  std::vector<int32_t> generate(std::span<const int32_t> first, int64_t count);
  /// Appends tokens to one sequence in as many steps as it takes; the logits of the last one.
  Tensor read(int64_t sequence, std::span<const int32_t> tokens);

  /// Forgets what follows the first `length` tokens.
  void truncate(int64_t sequence, int64_t length);
  void clear();
  int64_t length(int64_t sequence) const;
  std::span<const int32_t> tokens(int64_t sequence) const;

  const Model& model() const { return *model_; }
  const SequenceRunnerOptions& options() const { return options_; }
  int64_t cache_bytes() const { return cache_.bytes(); }

 private:
  const Batch& prepare(std::span<const Part> parts, Rows rows);

  std::shared_ptr<const Model> model_;
  SequenceRunnerOptions options_;
  PagedCache cache_;
  BatchBuilder builder_;
  StepGraphs steps_;
  std::vector<Sequence> sequences_;
  Step step_;
};

}  // namespace tensora::llm
