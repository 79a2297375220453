#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tensora::llm {

/// The tokens that may still be chosen, and the steps that make them fewer. A step keeps at least
/// one. Nothing is sorted as a whole: thresholds are found by selection, so that a vocabulary of
/// 128k tokens costs a few passes. Memory is kept from token to token. Top-k, top-p, min-p, scaling
/// and drawing choose what the op sample_tokens does (Note [Equal tokens everywhere]).
class Candidates {
 public:
  /// The k highest logits of those that are not below `floor`, highest first, of equals the lowest
  /// token first; k = 0: all of them, in the order of tokens. Tokens at -infinity never count.
  void select(std::span<const float> logits, int64_t k, float floor);

  void typical(double mass);
  void top_p(double mass);
  void min_p(double part);
  /// Drops all tokens of at least this probability but the least probable of them.
  void drop_likely(double threshold);
  void scale(double factor);  // of the logits; 1 / temperature
  /// Keeps the tokens whose surprise is at most so many bits.
  void limit_surprise(double bits);

  /// The token at `uniform`, from [0, 1), of the cumulative distribution.
  int32_t draw(double uniform);
  /// Of a token among these; 0 if it is none.
  double probability(int32_t token);

  int64_t size() const { return static_cast<int64_t>(keys_.size()); }
  int32_t token(int64_t i) const;
  float logit(int64_t i) const;

 private:
  float highest() const;
  double weigh();
  template <class Mass, class MassOf>
  uint64_t threshold(Mass target, const MassOf& mass_of);

  std::vector<uint64_t> keys_;  // logits with their tokens: see token_keys.h
  std::vector<uint64_t> scratch_;
  std::vector<float> weights_;
};

}  // namespace tensora::llm
