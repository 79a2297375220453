#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "tensora/llm/grammar/grammar.h"
#include "tensora/llm/grammar/token_trie.h"

namespace tensora::llm {

/// The states that a grammar's machine has been seen in, and the steps between them. A state is the
/// set of all ways to read the bytes so far, each a place in the program with a stack of return
/// addresses. Steps, and the tokens that a state allows, are found once and remembered, so that a
/// walk over the vocabulary is a walk over tables. Functions may be called from several threads.
class GrammarAutomaton {
 public:
  using State = int32_t;
  static constexpr State kDead = 0;  // nothing can come any more
  /// A state in a form that another automaton of the same grammar understands.
  using Stacks = std::vector<std::vector<int32_t>>;

  /// `tokens` are those that the grammar's references stand for.
  GrammarAutomaton(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie,
                   std::vector<int32_t> tokens);

  State start() const { return start_; }
  State enter(const Stacks& stacks);
  Stacks stacks(State state);
  /// The state behind a token; kDead if it cannot come. `bytes` are empty for a control token,
  /// which can come only where the grammar names it.
  State after(State state, int32_t token, std::string_view bytes);
  bool may_end(State state);
  /// Sets the logits of tokens that cannot come to -infinity.
  void mask(State state, std::span<float> logits);

  /// So many states are known that a fresh automaton should take over.
  bool is_full();
  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  const std::shared_ptr<const TokenTrie>& trie() const { return trie_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  struct Frame {
    int32_t address;  // where to go on
    int32_t parent;
    int32_t depth;
  };
  /// A place in the program, at an instruction that reads a byte or a token, and the stack there.
  struct Thread {
    int32_t place;
    int32_t frame;
    auto operator<=>(const Thread&) const = default;
  };
  struct Entry {
    std::vector<Thread> threads;
    bool accepting = false;
    std::vector<State> next;  // by byte; empty until the first step; -1: not known yet
    std::shared_ptr<const std::vector<uint64_t>> allowed;  // by token, one bit each
  };
  struct Hash {
    size_t operator()(const std::vector<Thread>& threads) const;
  };

  int32_t push(int32_t address, int32_t parent);
  void follow(std::vector<Thread>& open, Entry& entry);
  State intern(Entry entry);
  State step(State state, uint8_t byte);
  bool takes(const Thread& thread, int32_t token, bool is_control) const;
  std::vector<uint64_t> walk(State state);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<int32_t> tokens_;  // what the grammar's references stand for
  std::mutex mutex_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, int32_t> frame_of_;
  std::vector<Entry> states_;
  std::unordered_map<std::vector<Thread>, State, Hash> accepting_, others_;
  size_t masks_ = 0;
  size_t work_ = 0;  // instructions followed since a mask or a step was asked for
  State start_ = kDead;
};

}  // namespace tensora::llm
