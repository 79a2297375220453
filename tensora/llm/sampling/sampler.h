#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensora/llm/sampling/sampling_options.h"
#include "tensora/llm/sampling/token_choice.h"

namespace tensora::llm {

class Tokenizer;

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0;  // natural logarithm
};

struct Sampled {
  int32_t token = -1;
  /// Under the model's own distribution, before any step of the sampler; NaN unless
  /// `SamplingOptions::logprobs` asked for it.
  float logprob;
  std::vector<TokenLogprob> top = {};  // the most probable first; `top_logprobs` of them
};

/// Chooses tokens by logits for one sequence, and remembers what its penalties and its grammar need
/// to know of the sequence. Results depend on options, seed and what was accepted alone.
class Sampler {
 public:
  /// `tokenizer` is needed for a grammar, a schema and DRY's breakers; it may be null otherwise.
  Sampler(SamplingOptions options, int64_t vocab_size,
          std::shared_ptr<const Tokenizer> tokenizer = nullptr);
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  /// The next token. `logits`, one per token of the vocabulary, are overwritten. Does not accept
  /// the token, so a draft can be compared with it first.
  Sampled sample(std::span<float> logits);
  /// How the op sample_tokens chooses the token that `sample` would; `later` choices after the next
  /// one. None where options ask for steps that the op does not have, or for logprobs.
  std::optional<TokenChoice> choice(int64_t later = 0) const;
  /// The op chose the next token.
  void count_choice();
  /// The sequence goes on with a generated token.
  void accept(int32_t token);
  /// Tokens that were given, not generated: penalties see them, the grammar does not.
  void accept_prompt(std::span<const int32_t> tokens);
  /// Forbids these tokens until `count` tokens were generated, unless the grammar allows nothing
  /// else.
  void forbid_until(int64_t count, std::vector<int32_t> tokens);
  /// A token that was given, as `sample` reports one that it chose. `logits` are the model's own.
  Sampled score(std::span<const float> logits, int32_t token);
  /// Whether the grammar, if there is one, lets the output end here.
  bool may_end() const;

  /// What makes the results reproducible.
  uint64_t seed() const;
  const SamplingOptions& options() const;
  /// A sampler in the same state, which goes on independently; its random numbers are the same.
  Sampler clone() const;

 private:
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tensora::llm
