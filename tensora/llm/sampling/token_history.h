#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensora/llm/sampling/sampling_options.h"

namespace tensora::llm {

class Tokenizer;

/// The tokens of a sequence, and the penalties that follow from them; without penalties it keeps
/// nothing.
class TokenHistory {
 public:
  TokenHistory(const SamplingOptions& options, int64_t vocab_size,
               std::shared_ptr<const Tokenizer> tokenizer);

  void add(int32_t token, const SamplingOptions& options);
  /// Repeat, presence and frequency penalties.
  void penalize(std::span<float> logits, const SamplingOptions& options);
  /// DRY ("don't repeat yourself"): a token that would prolong what is already a repetition of
  /// `length` tokens loses multiplier * base ^ (length - allowed length).
  void discourage_repetition(std::span<float> logits, const SamplingOptions& options);

 private:
  bool is_wanted() const { return !counts_.empty() || !longest_.empty(); }
  std::span<const int32_t> recent(int64_t count) const;
  void note_breaker(int32_t token, const SamplingOptions& options);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> counts_;   // by token, among the recent ones; empty without penalties
  std::vector<int32_t> longest_;  // by token, of repetitions that it prolongs; empty without DRY
  std::vector<int32_t> matches_;
  std::string tail_;  // of the text, for breakers that span tokens
  size_t longest_breaker_ = 0;
  size_t after_breaker_ = 0;  // number of tokens up to the last breaker, including it
};

}  // namespace tensora::llm
