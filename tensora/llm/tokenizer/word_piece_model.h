#pragma once

#include <string>

#include "tensora/llm/tokenizer/byte_trie.h"
#include "tensora/llm/tokenizer/token_model.h"

namespace tensora::llm {

/// BERT's: the longest token that a word begins with, then the longest that what is left begins
/// with, and so on. A word that cannot be written so is the unknown token.
class WordPieceModel final : public TokenModel {
 public:
  struct Options {
    std::string start;   // before the text of a token that begins a word: "" or "▁"
    std::string inside;  // before that of one that does not: "##" or ""
    Token unknown = -1;
    int64_t longest_word = 100;  // in characters; a longer one is unknown
  };
  WordPieceModel(VocabularyPtr vocabulary, const Options& options);
  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  VocabularyPtr vocabulary_;
  Options options_;
  ByteTrie starts_, insides_;
};

}  // namespace tensora::llm
