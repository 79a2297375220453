#include "tensora/llm/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/word_scanner.h"

namespace tensora::llm {
namespace {

using Token = BpeTokenizer::Token;

uint64_t key_of(Token left, Token right) {
  return uint64_t(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

// Text repeats its words: most are merged once. The views point into the text that is encoded.
struct BpeTokenizer::WordCache {
  static constexpr size_t kMostWords = 1 << 17, kLongestWord = 64;
  struct Span {
    uint32_t start, length;
  };
  std::unordered_map<std::string_view, Span> words;
  std::vector<Token> tokens;
};

BpeTokenizer BpeTokenizer::bytes(const std::vector<std::string>& special) {
  BpeTokenizer out;
  for (int byte = 0; byte < 256; ++byte) out.add_token(std::string(1, static_cast<char>(byte)));
  for (const std::string& text : special) out.add_special(text);
  return out;
}

Token BpeTokenizer::add_token(std::string bytes) {
  const auto id = static_cast<Token>(tokens_.size());
  if (bytes.size() == 1) byte_tokens_[static_cast<uint8_t>(bytes[0])] = id;
  const bool fresh = ids_.emplace(bytes, id).second;
  check(fresh, "BpeTokenizer: the token '", bytes, "' is there twice");
  tokens_.push_back(std::move(bytes));
  return id;
}

Token BpeTokenizer::add_special(const std::string& text) {
  check(!text.empty(), "BpeTokenizer: a special token must not be empty");
  const auto id = static_cast<Token>(tokens_.size());
  check(special_.emplace(text, id).second, "BpeTokenizer: the special token '", text,
        "' is there twice");
  tokens_.push_back(text);
  return id;
}

void BpeTokenizer::add_merge(Merge merge, Token result) {
  const Rule rule{static_cast<int32_t>(merges_.size()), result};
  // A pair that is listed twice keeps its first rank.
  rules_.emplace(key_of(merge.first, merge.second), rule);
  merges_.push_back(merge);
}

const BpeTokenizer::Rule* BpeTokenizer::rule(Token left, Token right) const {
  const auto found = rules_.find(key_of(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

const std::string& BpeTokenizer::token(Token token) const {
  check(token >= 0 && token < vocab_size(), "BpeTokenizer: the token must be in [0, ", vocab_size(),
        "), got ", token);
  return tokens_[static_cast<size_t>(token)];
}

std::optional<Token> BpeTokenizer::find(std::string_view bytes) const {
  const auto found = ids_.find(std::string(bytes));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Token> BpeTokenizer::find_special(std::string_view text) const {
  const auto found = special_.find(text);
  return found == special_.end() ? std::nullopt : std::optional(found->second);
}

bool BpeTokenizer::is_special(Token token) const {
  const auto found = special_.find(this->token(token));
  return found != special_.end() && found->second == token;
}

std::pair<size_t, Token> BpeTokenizer::next_special(std::string_view text) const {
  std::pair<size_t, Token> best{text.npos, -1};
  size_t length = 0;
  for (const auto& [special, id] : special_) {
    // No later than the best so far, so that the search never runs through the text in vain.
    const size_t limit = best.first == text.npos ? text.size() : best.first + special.size();
    const size_t at = text.substr(0, limit).find(special);
    if (at == text.npos || at > best.first || (at == best.first && special.size() < length))
      continue;
    best = {at, id};
    length = special.size();
  }
  return best;
}

std::vector<Token> BpeTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Token> out;
  WordCache cache;
  while (!text.empty()) {
    const auto [at, id] = options.special ? next_special(text) : std::pair(text.npos, Token(-1));
    encode_plain(text.substr(0, at), out, cache);
    if (at == text.npos) break;
    out.push_back(id);
    text.remove_prefix(at + token(id).size());
  }
  return out;
}

void BpeTokenizer::encode_plain(std::string_view text, std::vector<Token>& out,
                                WordCache& cache) const {
  WordScanner scanner(text);
  for (std::string_view word = scanner.next(); !word.empty(); word = scanner.next()) {
    const auto known = cache.words.find(word);
    if (known != cache.words.end()) {
      const auto from = cache.tokens.begin() + known->second.start;
      out.insert(out.end(), from, from + known->second.length);
      continue;
    }
    const size_t start = out.size();
    encode_word(word, out);
    if (word.size() > WordCache::kLongestWord || cache.words.size() >= WordCache::kMostWords)
      continue;
    cache.words.emplace(word, WordCache::Span{static_cast<uint32_t>(cache.tokens.size()),
                                              static_cast<uint32_t>(out.size() - start)});
    cache.tokens.insert(cache.tokens.end(), out.begin() + static_cast<int64_t>(start), out.end());
  }
}

void BpeTokenizer::encode_word(std::string_view word, std::vector<Token>& out) const {
  std::vector<Token> tokens;
  tokens.reserve(word.size());
  for (const char byte : word) tokens.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
  word.size() <= 32 ? merge_short(tokens) : merge_long(tokens);
  out.insert(out.end(), tokens.begin(), tokens.end());
}

void BpeTokenizer::merge_short(std::vector<Token>& word) const {
  while (word.size() > 1) {
    const Rule* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const Rule* found = rule(word[i], word[i + 1]);
      if (!found || (best && found->rank >= best->rank)) continue;
      best = found;
      place = i;
    }
    if (!best) return;
    word[place] = best->result;
    word.erase(word.begin() + static_cast<int64_t>(place) + 1);
  }
}

// The same with a heap of the pairs that may be merged, for words (a line of dashes, a text without
// spaces) whose square is too much. Tokens form a list; a merged one is marked by -1.
void BpeTokenizer::merge_long(std::vector<Token>& word) const {
  struct Candidate {
    int32_t rank;
    size_t place;
    Token left, right, result;
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
    const Token left = word[place], right = word[next[place]];
    if (const Rule* found = rule(left, right))
      pairs.push({found->rank, place, left, right, found->result});
  };
  for (size_t i = 0; i < count; ++i) offer(i);
  while (!pairs.empty()) {
    const Candidate best = pairs.top();
    pairs.pop();
    const size_t right = next[best.place];
    // Either of them may have been merged since.
    if (word[best.place] != best.left || right >= count || word[right] != best.right) continue;
    word[best.place] = best.result;
    word[right] = -1;
    next[best.place] = next[right];
    if (next[right] < count) previous[next[right]] = best.place;
    offer(previous[best.place]);
    offer(best.place);
  }
  std::erase(word, -1);
}

std::string BpeTokenizer::decode(std::span<const Token> tokens,
                                 const DecodeOptions& options) const {
  std::string out;
  for (const Token id : tokens)
    if (options.special || !is_special(id)) out += token(id);
  return out;
}

}  // namespace tensora::llm
