#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensora/core/tensor.h"
#include "tensora/llm/execution_report.h"

namespace tensora::llm {

struct SessionOptions {
  int64_t sequences = 1;
  int64_t context = 2048;  // tokens of each sequence
  int64_t max_batch_tokens = 512;
  int64_t block_size = 32;
  std::optional<DType> cache_dtype = {};  // the model's choice unless given
  bool generates = false;                 // whether `generate` will be called
  bool graphs = true;                     // whether steps may be recorded and replayed
};

/// Computes given tokens of a fixed number of sequences, without requests, sampling or a thread of
/// its own: for benchmarks, perplexity, embeddings and logits. FrameworkBackend::open_sequences
/// makes one. For one thread at a time.
class SequenceSession {
 public:
  enum class Rows : uint8_t { none, last, all };  // of each part, whose results are wanted
  struct Part {
    int64_t sequence = 0;
    std::span<const int32_t> tokens;
  };

  virtual ~SequenceSession() = default;
  SequenceSession(const SequenceSession&) = delete;
  SequenceSession& operator=(const SequenceSession&) = delete;

  /// Appends the parts to their sequences in one step; at most max_batch_tokens in all. Float32
  /// logits [rows, vocab_size], which the next call may overwrite.
  virtual Tensor forward(std::span<const Part> parts, Rows rows) = 0;
  /// The same for the final hidden states [rows, hidden_size]. Throws where the framework does not
  /// give them out.
  virtual Tensor hidden(std::span<const Part> parts, Rows rows);
  /// Appends a token to each sequence, then the most probable tokens, `count` tokens in all.
  /// Returns the tokens that would come next. Needs the option `generates`.
  virtual std::vector<int32_t> generate(std::span<const int32_t> first, int64_t count);
  /// Makes an empty sequence the same as another one, whose tokens are given. By reading them,
  /// unless the framework can copy what it has computed.
  virtual void copy(int64_t from, int64_t to, std::span<const int32_t> tokens);
  /// Forgets what follows the first `length` tokens.
  virtual void truncate(int64_t sequence, int64_t length) = 0;
  virtual int64_t length(int64_t sequence) const = 0;
  /// Waits until the device has computed everything.
  virtual void synchronize() = 0;
  /// Bytes of the keys and values; 0: unknown.
  virtual int64_t cache_bytes() const { return 0; }
  virtual GraphStats graph_stats() const { return {}; }

  /// Appends tokens to one sequence in as many steps as needed; the logits of the last token.
  Tensor read(int64_t sequence, std::span<const int32_t> tokens);
  void clear();
  const SessionOptions& options() const { return options_; }

 protected:
  explicit SequenceSession(const SessionOptions& options) : options_(options) {}
  /// Throws unless `generate` may be called with these arguments.
  void check_generate(std::span<const int32_t> first, int64_t count) const;

 private:
  SessionOptions options_;
};

}  // namespace tensora::llm
