#include "tensora/llm/grammar/grammar_matcher.h"

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/grammar/grammar_automaton.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

struct GrammarMatcher::State {
  GrammarAutomaton::State after(int32_t token) const {
    if (ended || token < 0 || token >= tokenizer->vocab_size()) return GrammarAutomaton::kDead;
    const std::string& bytes = tokenizer->bytes_of(token);
    if (bytes.empty() || tokenizer->is_control(token)) return GrammarAutomaton::kDead;
    return automaton->after(at, bytes);
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<GrammarAutomaton> automaton;
  GrammarAutomaton::State at = GrammarAutomaton::kDead;
  bool ended = false;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                               const std::shared_ptr<const Tokenizer>& tokenizer)
    : state_(std::make_unique<State>()) {
  state_->tokenizer = tokenizer;
  state_->automaton =
      std::make_shared<GrammarAutomaton>(std::move(grammar), TokenTrie::of(tokenizer));
  state_->at = state_->automaton->start();
}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : state_(std::make_unique<State>(*other.state_)) {}
GrammarMatcher& GrammarMatcher::operator=(const GrammarMatcher& other) {
  *state_ = *other.state_;
  return *this;
}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;
GrammarMatcher::~GrammarMatcher() = default;

void GrammarMatcher::mask(std::span<float> logits) {
  State& state = *state_;
  if (state.automaton->is_full()) {
    // What is known belongs to parts of the text that were left behind, mostly.
    auto fresh =
        std::make_shared<GrammarAutomaton>(state.automaton->grammar(), state.automaton->trie());
    state.at = fresh->enter(state.automaton->stacks(state.at));
    state.automaton = std::move(fresh);
  }
  state.automaton->mask(state.ended ? GrammarAutomaton::kDead : state.at, logits);
}

bool GrammarMatcher::allows(int32_t token) {
  const State& state = *state_;
  if (token >= 0 && token < state.tokenizer->vocab_size() &&
      state.tokenizer->is_end_of_generation(token))
    return may_end() && !state.ended;
  return state.after(token) != GrammarAutomaton::kDead;
}

void GrammarMatcher::accept(int32_t token) {
  State& state = *state_;
  check(allows(token), "grammar: token ", token, " cannot come ",
        state.ended ? "after the end" : "here");
  if (state.tokenizer->is_end_of_generation(token))
    state.ended = true;
  else
    state.at = state.after(token);
}

bool GrammarMatcher::may_end() const { return state_->automaton->may_end(state_->at); }

}  // namespace tensora::llm
