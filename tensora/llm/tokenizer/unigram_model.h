#pragma once

#include "tensora/llm/tokenizer/byte_trie.h"
#include "tensora/llm/tokenizer/token_model.h"

namespace tensora::llm {

/// The most probable sequence of tokens, each with its own probability (the scores are logarithms).
class UnigramModel final : public TokenModel {
 public:
  UnigramModel(VocabularyPtr vocabulary, const Fallback& fallback);
  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  VocabularyPtr vocabulary_;
  Fallback fallback_;
  ByteTrie trie_;
  double unknown_score_ = 0;
};

}  // namespace tensora::llm
