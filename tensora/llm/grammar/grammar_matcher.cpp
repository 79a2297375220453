#include "tensora/llm/grammar/grammar_matcher.h"

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/grammar/grammar_automaton.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

namespace {

// The tokens that a grammar names. One that ends a generation is none of them: a sentence may end
// where the grammar does, and nowhere else.
std::vector<int32_t> named_tokens(const Grammar& grammar, const Tokenizer& tokenizer) {
  std::vector<int32_t> out;
  for (const Grammar::TokenReference& reference : grammar.tokens()) {
    const std::string name =
        reference.text.empty() ? concat("<[", reference.id, "]>") : reference.text;
    const int32_t token =
        reference.text.empty() ? reference.id : tokenizer.find(reference.text).value_or(-1);
    check(token >= 0 && token < tokenizer.vocab_size(), "grammar: ", name,
          " is not a token of the model's vocabulary of ", tokenizer.vocab_size(), " tokens");
    check(reference.negated || !tokenizer.is_end_of_generation(token), "grammar: ", name,
          " ends a generation; it can come where the rule root ends, and nowhere else");
    out.push_back(token);
  }
  return out;
}

}  // namespace

struct GrammarMatcher::State {
  GrammarAutomaton::State after(int32_t token) const {
    if (ended || token < 0 || token >= tokenizer->vocab_size()) return GrammarAutomaton::kDead;
    const bool is_control = tokenizer->is_control(token);
    return automaton->after(at, token, is_control ? "" : tokenizer->bytes_of(token));
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
  std::vector<int32_t> tokens = named_tokens(*grammar, *tokenizer);
  state_->automaton = std::make_shared<GrammarAutomaton>(
      std::move(grammar), TokenTrie::of(tokenizer), std::move(tokens));
  state_->at = state_->automaton->start();
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<GrammarAutomaton> automaton,
                               std::shared_ptr<const Tokenizer> tokenizer)
    : state_(std::make_unique<State>()) {
  state_->tokenizer = std::move(tokenizer);
  state_->automaton = std::move(automaton);
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
    // The cache is full, and most states in it are unreachable by now.
    auto fresh = std::make_shared<GrammarAutomaton>(
        state.automaton->grammar(), state.automaton->trie(), state.automaton->tokens());
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

const std::shared_ptr<GrammarAutomaton>& GrammarMatcher::automaton() const {
  return state_->automaton;
}

bool GrammarMatcher::may_end() const { return state_->automaton->may_end(state_->at); }

}  // namespace tensora::llm
