#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/char_set.h"

namespace tensora::llm {

/// A regular expression as a tree.
struct PatternNode {
  enum class Kind : uint8_t {
    one,      // a character of `set`
    ahead,    // the next character is one of `set`; at the end of the text, if `at_end`
    all,      // the children, one after another
    either,   // the first child that leads to a match
    repeated  // the only child, `least` to `most` times
  };
  static constexpr int kNoLimit = -1;

  Kind kind = Kind::all;
  CharSet set = {};
  bool at_end = false;
  int least = 1, most = 1;
  bool lazy = false;
  std::vector<PatternNode> children = {};
};

/// Reads what the patterns of tokenizers consist of: characters and escapes, classes, properties,
/// \s \d \w and their complements, groups, (?i: ), alternatives, quantifiers, and a look at one
/// character ahead, as in (?!\S) and $. Anything else (back references, looking behind) is refused:
/// it could not be matched in linear time. A possessive quantifier is accepted where it matches the
/// same as a greedy one.
PatternNode parse_pattern(std::string_view expression);

}  // namespace tensora::llm
