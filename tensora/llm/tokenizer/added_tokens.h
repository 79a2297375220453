#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/byte_trie.h"

namespace tensora::llm {

/// A token that is found in a text as it stands, before anything else is done to it.
struct AddedToken {
  std::string text;
  Token token = -1;
  bool control = false;      // found only where the caller asks for control tokens
  bool single_word = false;  // found only where no letter or digit touches it
  bool strip_left = false, strip_right = false;  // white space beside it belongs to it
};

/// Finds added tokens in a text: the first that begins, and of several that begin at the same place
/// the longest.
class AddedTokens {
 public:
  void add(AddedToken token);
  bool empty() const { return tokens_.empty(); }

  struct Found {
    size_t start, end;  // with the white space that belongs to it
    Token token;        // -1 if there is none; then both are the text's size
  };
  /// The first at or after `from`.
  Found next(std::string_view text, size_t from, bool control) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // to places in tokens_
  std::array<bool, 256> starts_{};
};

}  // namespace tensora::llm
