#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/pattern.h"

namespace tensora::llm {

/// A way of cutting text into words before byte pairs are merged, as GGUF names it in
/// `tokenizer.ggml.pre`. Several patterns work one after another, each on the words that those
/// before it left.
struct NamedPreTokenizer {
  struct Habits {
    bool adds_bos = false;
    bool ignores_merges = false;  // a whole word that is a token is that token
    bool adds_sep = false;        // the separator at the end
    bool raw_spaces = false;      // tokens are not written in byte letters; blanks are U+2581
  };
  std::vector<std::string> expressions = {};
  std::vector<std::shared_ptr<const Pattern>> patterns = {};  // the same, compiled
  Habits habits = {};
};

/// Made when it is first asked for. Throws for an unknown name, with a list of the known ones.
const NamedPreTokenizer& pre_tokenizer(std::string_view name);

/// The name of the pre-tokenizer that has these expressions, and, where several have them, that
/// treats whole words so; empty if there is none.
std::string pre_tokenizer_with(const std::vector<std::string>& expressions, bool ignores_merges);

}  // namespace tensora::llm
