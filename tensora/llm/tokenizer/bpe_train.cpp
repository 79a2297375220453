#include <algorithm>
#include <queue>
#include <unordered_set>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/bpe_tokenizer.h"
#include "tensora/llm/tokenizer/word_scanner.h"

namespace tensora::llm {
namespace {

// A longer one (a text without spaces) is learned from in pieces.
constexpr size_t kLongestWord = 256;

}  // namespace

// Counts of all pairs are kept while the words change: a merge visits only the words that contain
// its pair. The heap holds counts that may be out of date; they are checked when they come up.
struct BpeTokenizer::Learner {
  struct Word {
    std::vector<Token> tokens;
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words;  // that contain it, or did; perhaps several times
  };
  struct Candidate {
    int64_t count;
    Merge merge;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : merge > other.merge;
    }
  };
  struct HashMerge {
    size_t operator()(const Merge& merge) const {
      return std::hash<uint64_t>()(uint64_t(merge.first) << 32 | uint64_t(merge.second));
    }
  };

  std::unordered_map<std::string_view, int64_t> counts;
  std::vector<Word> words;
  std::unordered_map<Merge, Pair, HashMerge> pairs;
  std::unordered_set<Merge, HashMerge> grown;
  std::priority_queue<Candidate> heap;

  void read(std::string_view text) {
    WordScanner scanner(text);
    for (std::string_view word = scanner.next(); !word.empty(); word = scanner.next())
      for (; !word.empty(); word.remove_prefix(std::min(kLongestWord, word.size())))
        ++counts[word.substr(0, kLongestWord)];
  }

  void start() {
    // In the order of the words, not of their hashes.
    std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [text, count] : sorted) {
      Word& word = words.emplace_back(Word{{}, count});
      for (const char byte : text) word.tokens.push_back(static_cast<uint8_t>(byte));
      count_pairs(static_cast<uint32_t>(words.size() - 1), count);
    }
    offer_grown();
  }

  // Adds `count` to the pairs of a word.
  void count_pairs(uint32_t index, int64_t count) {
    const std::vector<Token>& tokens = words[index].tokens;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Merge merge{tokens[i], tokens[i + 1]};
      Pair& pair = pairs[merge];
      pair.count += count;
      if (count < 0) continue;
      if (pair.words.empty() || pair.words.back() != index) pair.words.push_back(index);
      grown.insert(merge);
    }
  }

  void offer_grown() {
    for (const Merge& merge : grown) heap.push({pairs[merge].count, merge});
    grown.clear();
  }

  // The most frequent pair; none if no pair occurs `least` times.
  std::optional<Merge> best(int64_t least) {
    while (!heap.empty()) {
      const Candidate top = heap.top();
      const int64_t count = pairs[top.merge].count;
      if (count == top.count) return count >= least ? std::optional(top.merge) : std::nullopt;
      heap.pop();
      if (count > 0) heap.push({count, top.merge});
    }
    return std::nullopt;
  }

  void apply(Merge merge, Token result) {
    std::vector<uint32_t> found = std::move(pairs[merge].words);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    for (const uint32_t index : found) {
      Word& word = words[index];
      count_pairs(index, -word.count);
      size_t kept = 0;
      for (size_t i = 0; i < word.tokens.size(); ++i) {
        const bool here = i + 1 < word.tokens.size() && word.tokens[i] == merge.first &&
                          word.tokens[i + 1] == merge.second;
        word.tokens[kept++] = here ? result : word.tokens[i];
        i += here;
      }
      word.tokens.resize(kept);
      count_pairs(index, word.count);
    }
    pairs.erase(merge);
    grown.erase(merge);
    offer_grown();
  }
};

BpeTokenizer BpeTokenizer::train(std::span<const std::string_view> texts,
                                 const TrainOptions& options) {
  BpeTokenizer out = bytes(options.special);
  check(options.vocab_size >= out.vocab_size() && options.vocab_size <= (1 << 24),
        "BpeTokenizer::train: vocab_size must be between ", out.vocab_size(),
        " (the bytes and the special tokens) and ", 1 << 24, ", got ", options.vocab_size);
  Learner learner;
  for (std::string_view text : texts) {
    while (!text.empty()) {
      const auto [at, special] = out.next_special(text);
      learner.read(text.substr(0, at));
      if (at == text.npos) break;
      text.remove_prefix(at + out.token(special).size());
    }
  }
  learner.start();
  while (out.vocab_size() < options.vocab_size) {
    const auto merge = learner.best(std::max<int64_t>(options.min_frequency, 1));
    if (!merge) break;
    std::string joined = out.token(merge->first) + out.token(merge->second);
    // Two ways to the same bytes are one token.
    const auto known = out.find(joined);
    const Token result = known ? *known : out.add_token(std::move(joined));
    out.add_merge(*merge, result);
    learner.apply(*merge, result);
  }
  return out;
}

}  // namespace tensora::llm
