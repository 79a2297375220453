#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tensora/llm/grammar/grammar.h"

namespace tensora::llm {

class GrammarAutomaton;
class Tokenizer;

/// Follows a grammar along the tokens of one sequence. Copies go on independently, and share what
/// was found out about the grammar so far.
class GrammarMatcher {
 public:
  /// Throws if the grammar names a token that the tokenizer does not have.
  GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                 const std::shared_ptr<const Tokenizer>& tokenizer);
  /// Begins with an automaton of another matcher for the same tokenizer, and what that has found.
  GrammarMatcher(std::shared_ptr<GrammarAutomaton> automaton,
                 std::shared_ptr<const Tokenizer> tokenizer);
  GrammarMatcher(const GrammarMatcher&);
  GrammarMatcher& operator=(const GrammarMatcher&);
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;
  ~GrammarMatcher();

  /// Sets the logits of all tokens that cannot come next to -infinity. Tokens that end the
  /// generation can come where a sentence may end; other control tokens where the grammar names
  /// them.
  void mask(std::span<float> logits);
  bool allows(int32_t token);
  /// Throws unless the token can come next.
  void accept(int32_t token);
  /// Whether what was accepted is a whole sentence.
  bool may_end() const;
  const std::shared_ptr<GrammarAutomaton>& automaton() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tensora::llm
