#include "tensora/serve/fill_middle.h"

#include <array>

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::serve {
namespace {

/// The control tokens around the parts of a text whose middle is missing.
struct FillTokens {
  int32_t prefix, suffix, middle;
};

std::optional<FillTokens> fill_tokens(const llm::Tokenizer& tokenizer) {
  using Names = std::array<const char*, 3>;
  constexpr std::array<Names, 6> kKnown = {
      {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
       {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
       {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
       {"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>",
        "<\uFF5Cfim\u2581end\uFF5C>"},
       {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},
       {"<PRE>", "<SUF>", "<MID>"}}};
  for (const Names& names : kKnown) {
    const auto prefix = tokenizer.find(names[0]), suffix = tokenizer.find(names[1]),
               middle = tokenizer.find(names[2]);
    if (prefix && suffix && middle) return FillTokens{*prefix, *suffix, *middle};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<int32_t>> fill_prompt(const llm::Tokenizer& tokenizer,
                                                const TextWithGap& text) {
  const auto marks = fill_tokens(tokenizer);
  if (!marks) return std::nullopt;
  std::vector<int32_t> tokens;
  const auto add = [&](const std::string& part) {
    const auto more = tokenizer.encode(part, {.add_special = false, .parse_special = false});
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  if (tokenizer.adds_bos() && tokenizer.bos()) tokens.push_back(*tokenizer.bos());
  add(text.before);
  tokens.push_back(marks->prefix);
  add(text.prefix);
  tokens.push_back(marks->suffix);
  add(text.suffix);
  tokens.push_back(marks->middle);
  add(text.start);
  return tokens;
}

}  // namespace tensora::serve
