#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tensora/llm/tokenizer/added_tokens.h"
#include "tensora/llm/tokenizer/normalizer.h"
#include "tensora/llm/tokenizer/pre_tokenizer.h"
#include "tensora/llm/tokenizer/token_model.h"

namespace tensora::llm {

/// The tokenizer that every kind of file is read into. A text goes through the same stations
/// always: added tokens are cut out, the rest is normalized, cut into words, and the words become
/// tokens.
class PipelineTokenizer final : public Tokenizer {
 public:
  struct Parts {
    VocabularyPtr vocabulary;
    std::unique_ptr<const TokenModel> model;
    AddedTokens added;             // found in the text as it is
    AddedTokens normalized_added;  // found in the normalized text
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    std::vector<Token> before, after;  // what is added around a text
    std::optional<Token> bos, eos;
    std::vector<Token> end_of_generation;
    bool strips_first_space = false;
    std::string description;
  };
  /// Checks that all ids are tokens.
  explicit PipelineTokenizer(Parts parts);

  std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options) const override;
  bool strips_first_space() const override { return parts_.strips_first_space; }
  const std::string& bytes_of(Token token, const DecodeOptions& options) const override;
  int64_t vocab_size() const override { return parts_.vocabulary->size(); }
  std::optional<Token> find(std::string_view text) const override;
  std::optional<Token> bos() const override { return parts_.bos; }
  std::optional<Token> eos() const override { return parts_.eos; }
  bool adds_bos() const override;
  bool is_control(Token token) const override;
  bool is_end_of_generation(Token token) const override { return ends_.contains(token); }
  std::vector<Token> end_of_generation() const override { return parts_.end_of_generation; }
  std::string description() const override { return parts_.description; }

 private:
  struct Run;
  void check_token(Token token) const;

  Parts parts_;
  std::unordered_set<Token> ends_;
};

/// Whether models are known to end an answer with a token of this name. Such a token is a control
/// token, whatever its file says: nobody may end an answer by writing its name.
bool is_end_name(std::string_view text);

/// Tokens by which models end their answers: those given, and those of well-known names.
std::vector<Token> end_tokens(const Vocabulary& vocabulary, const std::vector<Token>& given);

/// Whether merging or choosing tokens never looks across the beginning of a run of U+2581, so that
/// words may be cut there: no token has one after another character.
bool may_cut_at_space_marks(const Vocabulary& vocabulary);
/// Cuts there.
PreTokenizer::Split split_at_space_marks();

}  // namespace tensora::llm
