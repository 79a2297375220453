#include "tensora/llm/tokenizer/pattern.h"

#include <algorithm>
#include <map>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/pattern_syntax.h"

namespace tensora::llm {
namespace {

constexpr size_t kMostSteps = 5000, kMostStates = 8000, kMostSets = 64, kMostWork = 20'000'000;
constexpr size_t kPatience = 256;  // bytes read beyond a match before dead ends are remembered

}  // namespace

// Note [Patterns]
// The tree becomes a list of steps (a nondeterministic automaton), the sets of characters that
// occur in it become symbols (characters that no set tells apart share one), and then every
// reachable combination of steps becomes a state. A state is a list of steps in the order of
// preference, as they are before the next character is known: that character decides which of them
// it can pass, and also whether a look ahead holds, so (?!\S) costs nothing. Where a step of the
// list says that the match is complete, the steps after it are dropped: they are less preferred.
struct Pattern::Builder {
  enum class Kind : uint8_t { one, ahead, fork, done };
  struct Step {
    Kind kind;
    uint8_t set = 0;
    bool at_end = false;
    uint32_t next = 0, other = 0;  // `other` is less preferred
  };
  using State = std::vector<uint32_t>;

  explicit Builder(Pattern& pattern) : out(pattern) {}

  Pattern& out;
  std::vector<Step> steps;
  std::vector<CharSet> sets;
  std::vector<uint64_t> masks;  // by symbol: the sets that it belongs to
  std::map<State, uint16_t> numbers;
  std::vector<const State*> states;
  std::vector<uint32_t> seen;  // by step: when it was last visited
  size_t visits = 0;
  uint32_t round = 0;

  void build(std::string_view expression) {
    const PatternNode tree = parse_pattern(expression);
    steps.push_back({Kind::done});
    const uint32_t start = compile(tree, 0);
    make_symbols();
    out.symbols_ = masks.size() + 1;
    seen.resize(steps.size());
    number_of({});
    number_of({start});
    for (size_t i = 0; i < states.size(); ++i)
      for (size_t symbol = 0; symbol <= masks.size(); ++symbol)
        out.table_.push_back(step(*states[i], symbol));
  }

  uint32_t add(const Step& step) {
    check(steps.size() < kMostSteps, "the pattern is too large");
    steps.push_back(step);
    return static_cast<uint32_t>(steps.size() - 1);
  }

  uint8_t set_number(const CharSet& set) {
    const auto found = std::find(sets.begin(), sets.end(), set);
    if (found != sets.end()) return static_cast<uint8_t>(found - sets.begin());
    check(sets.size() < kMostSets, "the pattern has more than ", kMostSets, " classes");
    sets.push_back(set);
    return static_cast<uint8_t>(sets.size() - 1);
  }

  // The steps of a node, from the back: `next` is what follows it.
  uint32_t compile(const PatternNode& node, uint32_t next) {
    switch (node.kind) {
      case PatternNode::Kind::one:
        return add({Kind::one, set_number(node.set), false, next});
      case PatternNode::Kind::ahead:
        return add({Kind::ahead, set_number(node.set), node.at_end, next});
      case PatternNode::Kind::all:
        for (size_t i = node.children.size(); i-- > 0;) next = compile(node.children[i], next);
        return next;
      case PatternNode::Kind::either: {
        uint32_t entry = compile(node.children.back(), next);
        for (size_t i = node.children.size() - 1; i-- > 0;)
          entry = add({Kind::fork, 0, false, compile(node.children[i], next), entry});
        return entry;
      }
      case PatternNode::Kind::repeated:
        return compile_repeated(node, next);
    }
    return next;
  }

  uint32_t fork(bool lazy, uint32_t again, uint32_t leave) {
    return lazy ? add({Kind::fork, 0, false, leave, again})
                : add({Kind::fork, 0, false, again, leave});
  }

  uint32_t compile_repeated(const PatternNode& node, uint32_t next) {
    const PatternNode& child = node.children[0];
    uint32_t entry = next;
    if (node.most < 0) {
      const uint32_t loop = fork(node.lazy, 0, next);
      const uint32_t body = compile(child, loop);
      (node.lazy ? steps[loop].other : steps[loop].next) = body;
      entry = loop;
    }
    for (int i = node.least; i < node.most; ++i)
      entry = fork(node.lazy, compile(child, entry), next);
    for (int i = 0; i < node.least; ++i) entry = compile(child, entry);
    return entry;
  }

  void make_symbols() {
    // Where membership in a set changes, and of which.
    std::vector<std::pair<uint32_t, uint64_t>> changes;
    for (size_t i = 0; i < sets.size(); ++i)
      for (const CharSet::Range& range : sets[i].ranges()) {
        changes.emplace_back(range.first, uint64_t(1) << i);
        changes.emplace_back(range.last + 1, uint64_t(1) << i);
      }
    std::sort(changes.begin(), changes.end());
    std::map<uint64_t, uint8_t> known;
    std::vector<uint8_t> symbol_of(CharSet::kInvalid + 1);
    uint64_t mask = 0;
    uint32_t from = 0;
    for (size_t i = 0; from <= CharSet::kInvalid;) {
      for (; i < changes.size() && changes[i].first == from; ++i) mask ^= changes[i].second;
      const uint32_t to = i < changes.size() ? changes[i].first : CharSet::kInvalid + 1;
      const auto [place, fresh] = known.emplace(mask, static_cast<uint8_t>(masks.size()));
      check(known.size() < 255, "the pattern tells too many kinds of characters apart");
      if (fresh) masks.push_back(mask);
      std::fill(symbol_of.begin() + from, symbol_of.begin() + to, place->second);
      from = to;
    }
    make_pages(symbol_of);
  }

  void make_pages(const std::vector<uint8_t>& symbol_of) {
    std::copy_n(symbol_of.begin(), 128, out.ascii_.begin());
    std::map<std::string_view, uint16_t> known;
    const std::string_view all(reinterpret_cast<const char*>(symbol_of.data()), symbol_of.size());
    // The last page is shorter: it holds kInvalid alone.
    for (size_t at = 0; at < all.size(); at += 256) {
      const std::string_view page = all.substr(at, 256);
      if (at > 0 && page == all.substr(at - 256, page.size())) {  // as most are
        out.pages_.push_back(out.pages_.back());
        continue;
      }
      const auto [place, fresh] =
          known.emplace(page, static_cast<uint16_t>(out.page_symbols_.size() / 256));
      if (fresh) {
        out.page_symbols_.insert(out.page_symbols_.end(), page.begin(), page.end());
        out.page_symbols_.resize((out.page_symbols_.size() + 255) / 256 * 256);
      }
      out.pages_.push_back(place->second);
    }
  }

  uint16_t number_of(State state) {
    const auto [place, fresh] = numbers.emplace(std::move(state), 0);
    if (fresh) {
      check(states.size() < kMostStates, "the pattern is too large");
      place->second = static_cast<uint16_t>(states.size());
      states.push_back(&place->first);
    }
    return place->second;
  }

  uint16_t step(const State& state, size_t symbol) {
    State reached;
    ++round;
    const bool at_end = symbol == masks.size();
    bool complete = false;
    std::vector<uint32_t> pending(state.rbegin(), state.rend());
    while (!pending.empty() && !complete) {
      const uint32_t number = pending.back();
      pending.pop_back();
      if (seen[number] == round) continue;
      seen[number] = round;
      check(++visits < kMostWork, "the pattern is too large");
      const Step& one = steps[number];
      const bool in_set = !at_end && masks[symbol] >> one.set & 1;
      switch (one.kind) {
        case Kind::done:
          complete = true;
          break;
        case Kind::fork:
          pending.push_back(one.other);
          pending.push_back(one.next);
          break;
        case Kind::ahead:
          if (at_end ? one.at_end : in_set) pending.push_back(one.next);
          break;
        case Kind::one:
          if (in_set && std::find(reached.begin(), reached.end(), one.next) == reached.end())
            reached.push_back(one.next);
          break;
      }
    }
    return static_cast<uint16_t>(number_of(std::move(reached)) << 1 | (complete ? 1 : 0));
  }
};

Pattern::Pattern(std::string_view expression) { Builder(*this).build(expression); }

size_t Pattern::match(std::string_view text, size_t at, Memory& memory) const {
  size_t last = at, state = 1;
  const size_t end_symbol = symbols_ - 1;
  memory.trail_.clear();
  while (true) {
    size_t symbol = end_symbol, length = 0;
    if (at < text.size()) {
      const auto byte = static_cast<uint8_t>(text[at]);
      if (byte < 128) {
        symbol = ascii_[byte];
        length = 1;
      } else {
        const CodePoint point = decode_utf8(text.substr(at));
        const uint32_t code = point.code == kInvalidUtf8 ? CharSet::kInvalid : point.code;
        symbol = page_symbols_[size_t(pages_[code >> 8]) << 8 | (code & 255)];
        length = static_cast<size_t>(point.length);
      }
    }
    const uint16_t entry = table_[state * symbols_ + symbol];
    if (entry & 1) {
      last = at;
      memory.trail_.clear();
    }
    state = entry >> 1;
    if (state == 0) break;
    at += length;
    if (at - last > kPatience) [[unlikely]] {
      const uint64_t place = uint64_t(at) << 16 | state;
      if (memory.dead_ends_.contains(place)) break;
      memory.trail_.push_back(place);
    }
  }
  memory.dead_ends_.insert(memory.trail_.begin(), memory.trail_.end());
  return last;
}

std::string literal_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}&-)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace tensora::llm
