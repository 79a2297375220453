#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

/// A hash of a short text, eight bytes at a time.
inline uint32_t hash_text(std::string_view text) {
  uint64_t hash = text.size() * 0x9E3779B97F4A7C15u;
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  };
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    mix(word);
  }
  uint64_t word = 0;
  if (at < text.size()) std::memcpy(&word, text.data() + at, text.size() - at);
  mix(word);
  return static_cast<uint32_t>(hash >> 16);
}

/// Tokens by text. The texts belong to a list that is given with every call.
class TokenTable {
 public:
  void reserve(size_t count);
  /// False if the text is there: the first token keeps it.
  bool insert(std::span<const std::string> texts, Token token);
  /// -1 if there is none.
  Token find(std::span<const std::string> texts, std::string_view text) const {
    if (slots_.empty()) return -1;
    const uint32_t hash = hash_text(text);
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot slot = slots_[at];
      if (slot.token < 0) return -1;
      if (slot.hash == hash && texts[static_cast<size_t>(slot.token)] == text) return slot.token;
    }
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    Token token = -1;
  };
  void place(Slot slot);

  std::vector<Slot> slots_;
  size_t mask_ = 0, count_ = 0;
};

/// A pair of neighbours that becomes one token; the smallest rank goes first.
struct PairMerge {
  static constexpr int32_t kNever = INT32_MAX;
  int32_t rank = kNever;
  Token result = -1;
};

/// Merges by pair of tokens.
class PairTable {
 public:
  void reserve(size_t count);
  /// A pair that is there keeps its merge.
  void insert(Token left, Token right, PairMerge merge);
  PairMerge find(Token left, Token right) const {
    if (slots_.empty()) return {};
    for (size_t at = hash(left, right) & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.left == left && slot.right == right) return slot.merge;
      if (slot.left < 0) return {};
    }
  }

 private:
  struct Slot {
    Token left = -1, right = -1;
    PairMerge merge;
  };
  static size_t hash(Token left, Token right) {
    const uint64_t key = uint64_t(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 24);
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0, count_ = 0;
};

/// The tokens of words that were met before, for the length of one call: text repeats its words.
class WordCache {
 public:
  /// Adds the tokens of a known word; false if it is not known.
  bool append(std::string_view word, std::vector<Token>& out) const;
  void insert(std::string_view word, std::span<const Token> tokens);

 private:
  static constexpr size_t kMostWords = 1 << 16, kLongestWord = 64, kMostTokens = 64;
  struct Slot {
    uint32_t hash = 0, text = 0, tokens = 0;
    uint16_t text_size = 0, count = 0;  // a text is never empty
  };

  std::vector<Slot> slots_;
  size_t mask_ = 0, count_ = 0;
  std::string texts_;
  std::vector<Token> tokens_;
};

}  // namespace tensora::llm
