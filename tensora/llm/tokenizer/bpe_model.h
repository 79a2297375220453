#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tensora/llm/tokenizer/merge_symbols.h"
#include "tensora/llm/tokenizer/token_model.h"

namespace tensora::llm {

/// Byte pairs: the parts of a word are merged in the order that was learned.
class BpeModel final : public TokenModel {
 public:
  struct Options {
    bool bytes = true;            // the first parts are bytes; else characters
    bool ignores_merges = false;  // a whole word that is a token is that token
    Fallback fallback = {};
  };
  BpeModel(VocabularyPtr vocabulary, const Options& options);

  /// The next merge, by the texts of its parts. What is no token may still be merged further; if
  /// it is left, it is written as its first parts.
  void add_merge(std::string_view left, std::string_view right);
  void reserve(size_t merges) { merges_.reserve(merges); }
  /// Every way to put a token together from two others is a merge, the token's number its rank:
  /// what a tiktoken file means.
  void add_all_merges();

  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  Token symbol(const std::string& text);
  void split(std::string_view word, std::vector<Symbol>& out) const;
  void emit(std::string_view text, Token token, size_t start, std::vector<Token>& out) const;

  VocabularyPtr vocabulary_;
  Options options_;
  PairTable merges_;
  int32_t next_rank_ = 0;
  // Merged pairs that are no tokens; their numbers follow the vocabulary's.
  std::vector<std::string> hidden_;
  TokenTable hidden_table_;
};

/// Sentencepiece's BPE: neighbours that form a token together are merged, the highest score first.
class ScoreModel final : public TokenModel {
 public:
  ScoreModel(VocabularyPtr vocabulary, const Fallback& fallback);
  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  VocabularyPtr vocabulary_;
  Fallback fallback_;
};

}  // namespace tensora::llm
