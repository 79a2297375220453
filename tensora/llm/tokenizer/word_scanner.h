#pragma once

#include <string_view>

namespace tensora::llm {

/// Splits text into the words that byte pairs are merged within, as GPT-2 does by the pattern
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// Reads every byte once or twice. The words, joined, are the text; bytes that are not UTF-8 count
/// as signs.
class WordScanner {
 public:
  explicit WordScanner(std::string_view text) : rest_(text) {}
  /// The next word; empty at the end.
  std::string_view next();

 private:
  std::string_view rest_;
};

}  // namespace tensora::llm
