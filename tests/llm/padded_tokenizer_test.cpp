// Models whose matrices have more rows than their tokenizer has tokens.

#include "tensora/llm/padded_tokenizer.h"

#include <algorithm>

#include "tensora/llm/engine.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;
using tensora::testing::contains;
using tensora::testing::error_of;
using Tokens = std::vector<int32_t>;

/// Knows the first tokens only, and throws for others.
class ShortTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kSize = 20;

  std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const override {
    return inner_.encode(text, options);
  }
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options) const override {
    for (const Token token : tokens) known(token);
    return inner_.decode(tokens, options);
  }
  bool strips_first_space() const override { return false; }
  const std::string& bytes_of(Token token, const DecodeOptions& options) const override {
    return inner_.bytes_of(known(token), options);
  }
  int64_t vocab_size() const override { return kSize; }
  std::optional<Token> find(std::string_view) const override { return {}; }
  std::optional<Token> bos() const override { return kBos; }
  std::optional<Token> eos() const override { return kEnd; }
  bool adds_bos() const override { return true; }
  bool is_control(Token token) const override { return inner_.is_control(known(token)); }
  bool is_end_of_generation(Token token) const override { return known(token) == kEnd; }
  std::vector<Token> end_of_generation() const override { return {kEnd}; }
  std::string description() const override { return "short"; }

 private:
  static Token known(Token token) {
    check(token >= 0 && token < kSize, "the token must be in [0, ", kSize, "), got ", token);
    return token;
  }
  ToyTokenizer inner_;
};

TEST(PaddedTokenizer, TokensThatTheTokenizerDoesNotHaveAreSilent) {
  Engine engine({std::make_shared<ToyModel>(256), std::make_shared<ShortTokenizer>(), {}},
                {.cache_dtype = kFloat32});
  const Tokens prompt{kBos, 5, 9, 3, 17, 11, 4};
  const Tokens expected = continued(prompt, 40);
  ASSERT_GT(*std::max_element(expected.begin(), expected.end()), ShortTokenizer::kSize);
  std::string text;
  for (const int32_t token : expected)
    if (token < ShortTokenizer::kSize) text += ToyTokenizer().bytes_of(token, {});
  for (const double dry : {0.0, 0.5}) {
    const Completion answer = engine.generate(
        {.tokens = prompt,
         .sampling = {.temperature = 0, .dry_multiplier = dry, .dry_allowed_length = 30},
         .max_tokens = 40});
    EXPECT_EQ(answer.tokens, expected);
    EXPECT_EQ(answer.text, text);
  }
  EXPECT_EQ(engine.tokenizer()->decode(Tokens{2, 47, 3}), "AB");
  EXPECT_TRUE(contains(error_of([&] { engine.tokenizer()->decode(Tokens{48}); }), "got 48"));
  // A grammar never asks for one.
  const Completion grammar =
      engine.generate({.tokens = prompt,
                       .sampling = {.temperature = 0, .grammar = "root ::= [A-R]+"},
                       .max_tokens = 20});
  for (const int32_t token : grammar.tokens) EXPECT_LT(token, ShortTokenizer::kSize);
}

}  // namespace
}  // namespace tensora::llm
