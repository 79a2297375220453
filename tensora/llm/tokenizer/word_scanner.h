#pragma once

#include <string_view>

#include "tensora/llm/tokenizer/pattern.h"

namespace tensora::llm {

/// Splits text into the matches of a pattern and what lies between them. The words, joined, are the
/// text; bytes that are not UTF-8 count as signs.
class WordScanner {
 public:
  WordScanner(std::string_view text, const Pattern& pattern) : text_(text), pattern_(&pattern) {}
  /// With the pattern of GPT-2:
  ///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  explicit WordScanner(std::string_view text);

  /// The next word; empty at the end.
  std::string_view next();
  /// Whether the last word was a match.
  bool matched() const { return matched_; }

 private:
  std::string_view text_;
  const Pattern* pattern_;
  Pattern::Memory memory_;
  size_t at_ = 0;
  size_t match_end_ = 0;  // of a match at `at_` that was found while looking for its start
  bool matched_ = false;
};

}  // namespace tensora::llm
