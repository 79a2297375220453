#include "tensora/llm/padded_tokenizer.h"

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

class PaddedTokenizer final : public Tokenizer {
 public:
  PaddedTokenizer(TokenizerPtr tokenizer, int64_t vocab_size)
      : inner_(std::move(tokenizer)), vocab_size_(vocab_size) {}

  std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const override {
    return inner_->encode(text, options);
  }
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options) const override {
    std::vector<Token> known;
    for (const Token token : tokens)
      if (!is_padding(token)) known.push_back(token);
    return inner_->decode(known, options);
  }
  bool strips_first_space() const override { return inner_->strips_first_space(); }
  const std::string& bytes_of(Token token, const DecodeOptions& options) const override {
    static const std::string nothing;
    return is_padding(token) ? nothing : inner_->bytes_of(token, options);
  }
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<Token> find(std::string_view text) const override { return inner_->find(text); }
  std::optional<Token> bos() const override { return inner_->bos(); }
  std::optional<Token> eos() const override { return inner_->eos(); }
  bool adds_bos() const override { return inner_->adds_bos(); }
  bool is_control(Token token) const override {
    return is_padding(token) || inner_->is_control(token);
  }
  bool is_end_of_generation(Token token) const override {
    return !is_padding(token) && inner_->is_end_of_generation(token);
  }
  std::vector<Token> end_of_generation() const override { return inner_->end_of_generation(); }
  std::string description() const override { return inner_->description(); }

 private:
  bool is_padding(Token token) const {
    return token >= inner_->vocab_size() && token < vocab_size_;
  }

  TokenizerPtr inner_;
  int64_t vocab_size_;
};

}  // namespace

TokenizerPtr padded_tokenizer(TokenizerPtr tokenizer, int64_t vocab_size) {
  if (!tokenizer || tokenizer->vocab_size() >= vocab_size) return tokenizer;
  return std::make_shared<PaddedTokenizer>(std::move(tokenizer), vocab_size);
}

}  // namespace tensora::llm
