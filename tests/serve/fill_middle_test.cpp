#include "tensora/serve/fill_middle.h"

#include <gtest/gtest.h>

#include "../llm/toy_tokenizer.h"

namespace tensora::serve {
namespace {

TEST(FillMiddle, PutsControlTokensAroundTheParts) {
  const auto tokenizer =
      llm::ToyTokenizer::with_bytes({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"});
  const auto byte = [](char letter) { return 2 + static_cast<int32_t>(letter); };
  const int32_t first = 2 + 256;
  const auto tokens =
      fill_prompt(*tokenizer, {.before = "x", .prefix = "ab", .suffix = "c", .start = "d"});
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(*tokens, (std::vector<int32_t>{byte('x'), first, byte('a'), byte('b'), first + 1,
                                           byte('c'), first + 2, byte('d')}));
}

TEST(FillMiddle, NeedsAllThreeTokens) {
  const auto tokenizer = llm::ToyTokenizer::with_bytes({"<|fim_prefix|>", "<|fim_suffix|>"});
  EXPECT_FALSE(fill_prompt(*tokenizer, {.prefix = "a", .suffix = "b"}).has_value());
}

}  // namespace
}  // namespace tensora::serve
