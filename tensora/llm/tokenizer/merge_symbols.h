#pragma once

#include <array>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "tensora/llm/tokenizer/token_table.h"

namespace tensora::llm {

/// A piece of a word: its token, or -1, and where it lies.
struct Symbol {
  Token token;
  uint32_t start, size;
};

namespace detail {

inline constexpr size_t kShortWord = 32;

// The merges of all neighbours are at hand; a merge changes those of its two new neighbours.
template <class Rule>
void merge_short(std::vector<Symbol>& word, const Rule& rule) {
  std::array<PairMerge, kShortWord> merges;
  size_t count = word.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = rule(word[i], word[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == PairMerge::kNever) break;
    word[best].token = merges[best].result;
    word[best].size += word[best + 1].size;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      word[i] = word[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best > 0) merges[best - 1] = rule(word[best - 1], word[best]);
    if (best + 1 < count) merges[best] = rule(word[best], word[best + 1]);
  }
  word.resize(count);
}

// The same with a heap of the pairs that may be merged, for words (a line of dashes, a text without
// spaces) whose square is too much. Symbols form a list; one that was merged away has size 0.
template <class Rule>
void merge_long(std::vector<Symbol>& word, const Rule& rule) {
  struct Candidate {
    int32_t rank;
    size_t place;
    uint32_t left_size, right_size;
    Token result;
    bool operator<(const Candidate& other) const {
      return std::pair(rank, place) > std::pair(other.rank, other.place);
    }
  };
  const size_t count = word.size();
  std::vector<size_t> next(count), previous(count);
  for (size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // of the first: the largest number
  }
  std::priority_queue<Candidate> pairs;
  const auto offer = [&](size_t place) {
    if (place >= count || next[place] >= count) return;
    const Symbol &left = word[place], &right = word[next[place]];
    const PairMerge merge = rule(left, right);
    if (merge.rank != PairMerge::kNever)
      pairs.push({merge.rank, place, left.size, right.size, merge.result});
  };
  for (size_t i = 0; i < count; ++i) offer(i);
  while (!pairs.empty()) {
    const Candidate best = pairs.top();
    pairs.pop();
    const size_t right = next[best.place];
    // Either of them may have been merged since.
    if (word[best.place].size != best.left_size || right >= count ||
        word[right].size != best.right_size)
      continue;
    word[best.place].token = best.result;
    word[best.place].size += best.right_size;
    word[right].size = 0;
    next[best.place] = next[right];
    if (next[right] < count) previous[next[right]] = best.place;
    offer(previous[best.place]);
    offer(best.place);
  }
  std::erase_if(word, [](const Symbol& symbol) { return symbol.size == 0; });
}

}  // namespace detail

/// Merges neighbours, the pair of the smallest rank first and of several such the leftmost, until
/// no pair has a merge. `rule(left, right)` says what two symbols become.
template <class Rule>
void merge_symbols(std::vector<Symbol>& word, const Rule& rule) {
  if (word.size() <= detail::kShortWord)
    detail::merge_short(word, rule);
  else
    detail::merge_long(word, rule);
}

}  // namespace tensora::llm
