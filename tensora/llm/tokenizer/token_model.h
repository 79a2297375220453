#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/vocabulary.h"

namespace tensora::llm {

using VocabularyPtr = std::shared_ptr<const Vocabulary>;

/// Turns a word, as the pre-tokenizer cut it, into tokens. Constant, for any number of threads.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void encode(std::string_view word, std::vector<Token>& out) const = 0;
};

/// What is written for a character that is no token.
struct Fallback {
  bool bytes = false;  // the tokens of its bytes, where all of them exist
  Token unknown = -1;  // else this; nothing if -1
  bool fuse = false;   // one for a run of such characters
};

/// Adds the tokens for a piece of text that is no token. The word's tokens begin at `start`.
void encode_unknown(const Vocabulary& vocabulary, const Fallback& fallback, std::string_view text,
                    size_t start, std::vector<Token>& out);

}  // namespace tensora::llm
