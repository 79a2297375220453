#include "tensora/llm/grammar/grammar_automaton.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

constexpr size_t kMaxStates = 8192;
constexpr size_t kMaxMasks = 512;
constexpr size_t kMaxThreads = 20'000;  // ways to read the same bytes
constexpr size_t kMaxSeen = 60'000;     // instructions on the way to them
constexpr size_t kMaxWork = 2'000'000;  // instructions on the way to a mask
constexpr int32_t kMaxDepth = 10'000;   // return addresses on a stack
constexpr int32_t kBottom = 0;          // the frame below all others

using Kind = Grammar::Instruction::Kind;

}  // namespace

size_t GrammarAutomaton::Hash::operator()(const std::vector<Thread>& threads) const {
  uint64_t hash = threads.size();
  for (const Thread& thread : threads) {
    hash ^= uint64_t(uint32_t(thread.place)) << 32 | uint32_t(thread.frame);
    hash *= 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const Grammar> grammar,
                                   std::shared_ptr<const TokenTrie> trie,
                                   std::vector<int32_t> tokens)
    : grammar_(std::move(grammar)), trie_(std::move(trie)), tokens_(std::move(tokens)) {
  frames_.push_back({.address = -1, .parent = -1, .depth = 0});
  states_.emplace_back();  // kDead
  start_ = enter({{grammar_->start()}});
}

int32_t GrammarAutomaton::push(int32_t address, int32_t parent) {
  const uint64_t key = uint64_t(uint32_t(address)) << 32 | uint32_t(parent);
  const auto [found, added] = frame_of_.try_emplace(key, static_cast<int32_t>(frames_.size()));
  if (added) frames_.push_back({address, parent, frames_[static_cast<size_t>(parent)].depth + 1});
  return found->second;
}

// Goes on from the open threads until each stands before a byte. What would nest too deeply is not
// a way to go on.
void GrammarAutomaton::follow(std::vector<Thread>& open, Entry& entry) {
  std::unordered_set<uint64_t> seen;
  while (!open.empty()) {
    const Thread thread = open.back();
    open.pop_back();
    check(++work_ <= kMaxWork,
          "grammar: too ambiguous: the tokens that may come next take more than ", kMaxWork,
          " steps to find");
    if (!seen.insert(uint64_t(uint32_t(thread.place)) << 32 | uint32_t(thread.frame)).second)
      continue;
    check(seen.size() <= kMaxSeen && entry.threads.size() <= kMaxThreads,
          "grammar: too ambiguous: more than ", kMaxThreads, " ways to read the same text");
    const auto& instruction = grammar_->program()[static_cast<size_t>(thread.place)];
    const Frame frame = frames_[static_cast<size_t>(thread.frame)];
    switch (instruction.kind) {
      case Kind::byte:
      case Kind::token:
        entry.threads.push_back(thread);
        break;
      case Kind::split:
        open.push_back({thread.place + 1, thread.frame});
        [[fallthrough]];
      case Kind::jump:
        open.push_back({instruction.target, thread.frame});
        break;
      case Kind::call:
        if (frame.depth < kMaxDepth)
          open.push_back({instruction.target, push(thread.place + 1, thread.frame)});
        break;
      case Kind::finish:
        if (thread.frame == kBottom)
          entry.accepting = true;
        else
          open.push_back({frame.address, frame.parent});
        break;
    }
  }
  std::sort(entry.threads.begin(), entry.threads.end());
}

GrammarAutomaton::State GrammarAutomaton::intern(Entry entry) {
  if (entry.threads.empty() && !entry.accepting) return kDead;
  auto& known = entry.accepting ? accepting_ : others_;
  const auto [found, added] = known.try_emplace(entry.threads, static_cast<State>(states_.size()));
  if (added) states_.push_back(std::move(entry));
  return found->second;
}

GrammarAutomaton::State GrammarAutomaton::enter(const Stacks& stacks) {
  const std::lock_guard lock(mutex_);
  work_ = 0;
  std::vector<Thread> open;
  Entry entry;
  for (const std::vector<int32_t>& stack : stacks) {
    if (stack.empty()) {
      entry.accepting = true;
      continue;
    }
    int32_t frame = kBottom;
    for (size_t i = 0; i + 1 < stack.size(); ++i) frame = push(stack[i], frame);
    open.push_back({stack.back(), frame});
  }
  follow(open, entry);
  return intern(std::move(entry));
}

GrammarAutomaton::Stacks GrammarAutomaton::stacks(State state) {
  const std::lock_guard lock(mutex_);
  const Entry& entry = states_[static_cast<size_t>(state)];
  Stacks out;
  if (entry.accepting) out.emplace_back();
  for (const Thread& thread : entry.threads) {
    std::vector<int32_t> stack = {thread.place};
    for (int32_t frame = thread.frame; frame != kBottom;
         frame = frames_[static_cast<size_t>(frame)].parent)
      stack.push_back(frames_[static_cast<size_t>(frame)].address);
    std::reverse(stack.begin(), stack.end());
    out.push_back(std::move(stack));
  }
  return out;
}

GrammarAutomaton::State GrammarAutomaton::step(State state, uint8_t byte) {
  const auto from = static_cast<size_t>(state);
  if (state == kDead) return kDead;
  if (states_[from].next.empty()) states_[from].next.assign(256, -1);
  if (const State known = states_[from].next[byte]; known >= 0) return known;
  std::vector<Thread> open;
  for (const Thread& thread : states_[from].threads) {
    const auto& instruction = grammar_->program()[static_cast<size_t>(thread.place)];
    if (instruction.kind == Kind::byte && instruction.low <= byte && byte <= instruction.high)
      open.push_back({thread.place + 1, thread.frame});
  }
  Entry entry;
  follow(open, entry);
  const State next = intern(std::move(entry));
  return states_[from].next[byte] = next;
}

// Whether a thread stands before a reference that matches the token; `is_control`: one that only
// its name matches.
bool GrammarAutomaton::takes(const Thread& thread, int32_t token, bool is_control) const {
  const auto& instruction = grammar_->program()[static_cast<size_t>(thread.place)];
  if (instruction.kind != Kind::token) return false;
  const auto reference = static_cast<size_t>(instruction.target);
  if (!grammar_->tokens()[reference].negated) return tokens_[reference] == token;
  return !is_control && tokens_[reference] != token;
}

// A token may be read byte by byte, as a whole, or both.
GrammarAutomaton::State GrammarAutomaton::after(State state, int32_t token,
                                                std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  work_ = 0;
  std::vector<Thread> open;
  for (const Thread& thread : states_[static_cast<size_t>(state)].threads)
    if (takes(thread, token, bytes.empty())) open.push_back({thread.place + 1, thread.frame});
  if (bytes.empty()) state = kDead;
  for (const char byte : bytes) state = step(state, static_cast<uint8_t>(byte));
  if (open.empty()) return state;
  const Entry& by_bytes = states_[static_cast<size_t>(state)];
  Entry entry;
  entry.accepting = by_bytes.accepting;
  open.insert(open.end(), by_bytes.threads.begin(), by_bytes.threads.end());
  follow(open, entry);
  return intern(std::move(entry));
}

bool GrammarAutomaton::may_end(State state) {
  const std::lock_guard lock(mutex_);
  return states_[static_cast<size_t>(state)].accepting;
}

bool GrammarAutomaton::is_full() {
  const std::lock_guard lock(mutex_);
  return states_.size() > kMaxStates;
}

// The tokens whose bytes lead to a live state: one pass over the tree of tokens, which skips what
// lies below a byte that cannot come.
std::vector<uint64_t> GrammarAutomaton::walk(State state) {
  work_ = 0;
  std::vector<uint64_t> allowed(static_cast<size_t>(trie_->vocab_size() + 63) / 64);
  const auto allow = [&](int32_t token) {
    allowed[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
  };
  std::vector<State> path(trie_->depth() + 1, kDead);
  path[0] = state;
  const auto nodes = trie_->nodes();
  const auto tokens = trie_->tokens();
  for (size_t i = 0; i + 1 < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const State before = path[node.depth - 1u];
    const auto& row = states_[static_cast<size_t>(before)].next;
    const State known = row.empty() ? -1 : row[node.byte];
    const State next = known >= 0 ? known : step(before, node.byte);
    if (next == kDead) {
      i = static_cast<size_t>(node.skip);
      continue;
    }
    path[node.depth] = next;
    for (int32_t t = node.tokens_begin; t < nodes[i + 1].tokens_begin; ++t)
      allow(tokens[static_cast<size_t>(t)]);
    ++i;
  }
  for (const Thread& thread : states_[static_cast<size_t>(state)].threads) {
    const auto& instruction = grammar_->program()[static_cast<size_t>(thread.place)];
    if (instruction.kind != Kind::token) continue;
    const auto reference = static_cast<size_t>(instruction.target);
    const int32_t named = tokens_[reference];
    if (grammar_->tokens()[reference].negated) {
      for (const int32_t token : tokens)
        if (token != named) allow(token);
    } else {
      allow(named);
    }
  }
  if (states_[static_cast<size_t>(state)].accepting)
    for (const int32_t token : trie_->ends()) allow(token);
  return allowed;
}

void GrammarAutomaton::mask(State state, std::span<float> logits) {
  check(std::ssize(logits) >= trie_->vocab_size(), "grammar: expected logits for ",
        trie_->vocab_size(), " tokens, got ", logits.size());
  std::shared_ptr<const std::vector<uint64_t>> allowed;
  {
    const std::lock_guard lock(mutex_);
    const auto place = static_cast<size_t>(state);
    if (!states_[place].allowed) {
      if (masks_++ >= kMaxMasks) {
        for (Entry& entry : states_) entry.allowed.reset();
        masks_ = 1;
      }
      states_[place].allowed = std::make_shared<std::vector<uint64_t>>(walk(state));
    }
    allowed = states_[place].allowed;
  }
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  for (size_t word = 0; word < allowed->size(); ++word) {
    const uint64_t bits = (*allowed)[word];
    if (bits == ~uint64_t{0}) continue;
    const size_t end = std::min(logits.size(), word * 64 + 64);
    for (size_t i = word * 64; i < end; ++i)
      if (!(bits >> (i % 64) & 1)) logits[i] = kForbidden;
  }
  // A model may have more logits than its tokenizer has tokens.
  std::fill(logits.begin() + trie_->vocab_size(), logits.end(), kForbidden);
}

}  // namespace tensora::llm
