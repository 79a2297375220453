#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

/// A tokenizer of given texts, cut greedily, with token 0 as the end of a generation and token 1 as
/// another control token.
class ToyTokenizer final : public Tokenizer {
 public:
  explicit ToyTokenizer(std::vector<std::string> texts, std::string other = "<other>")
      : texts_{"<end>", std::move(other)} {
    for (std::string& text : texts) texts_.push_back(std::move(text));
  }
  /// All bytes, then these.
  static std::shared_ptr<const ToyTokenizer> with_bytes(const std::vector<std::string>& more = {},
                                                        std::string other = "<other>") {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    texts.insert(texts.end(), more.begin(), more.end());
    return std::make_shared<ToyTokenizer>(std::move(texts), std::move(other));
  }

  using Tokenizer::bytes_of;
  using Tokenizer::decode;
  using Tokenizer::encode;
  std::vector<Token> encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<Token> out;
    while (!text.empty()) {
      Token best = -1;
      for (Token token = 2; token < vocab_size(); ++token)
        if (text.starts_with(texts_[token]) &&
            (best < 0 || texts_[token].size() > texts_[best].size()))
          best = token;
      out.push_back(best);
      text.remove_prefix(texts_.at(best).size());
    }
    return out;
  }
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options) const override {
    std::string out;
    for (const Token token : tokens) out += bytes_of(token, options);
    return out;
  }
  bool strips_first_space() const override { return false; }
  const std::string& bytes_of(Token token, const DecodeOptions& options) const override {
    return token < 2 && !options.special ? empty_ : texts_.at(token);
  }
  int64_t vocab_size() const override { return std::ssize(texts_); }
  std::optional<Token> find(std::string_view text) const override {
    for (Token token = 0; token < vocab_size(); ++token)
      if (texts_[token] == text) return token;
    return std::nullopt;
  }
  std::optional<Token> bos() const override { return std::nullopt; }
  std::optional<Token> eos() const override { return 0; }
  bool adds_bos() const override { return false; }
  bool is_control(Token token) const override { return token < 2; }
  bool is_end_of_generation(Token token) const override { return token == 0; }
  std::vector<Token> end_of_generation() const override { return {0}; }
  std::string description() const override { return "a toy"; }

 private:
  std::vector<std::string> texts_;
  std::string empty_;
};

}  // namespace tensora::llm
