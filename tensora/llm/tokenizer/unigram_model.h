#pragma once

#include "tensora/llm/tokenizer/byte_trie.h"
#include "tensora/llm/tokenizer/token_model.h"

namespace tensora::llm {

/// The most probable sequence of tokens, each with its own probability (the scores are logarithms).
/// Scores are added in double, as Hugging Face's library does. Sentencepiece adds them in float
/// along the whole text, so that far from its beginning the last digits of two ways get lost.
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
