#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tensora::llm {
class Tokenizer;
}

namespace tensora::serve {

/// A text whose middle is to be written.
struct TextWithGap {
  std::string before = {};  // other texts, in front of it
  std::string prefix = {}, suffix = {};
  std::string start = {};  // of what is to be written
};

/// The prompt for a model that was trained to fill in the middle; none where the tokenizer has no
/// control tokens for it. Names of control tokens in the texts stay words.
std::optional<std::vector<int32_t>> fill_prompt(const llm::Tokenizer& tokenizer,
                                                const TextWithGap& text);

}  // namespace tensora::serve
