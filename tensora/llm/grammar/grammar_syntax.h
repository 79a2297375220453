#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensora/llm/grammar/grammar.h"

namespace tensora::llm {

/// The rules of a grammar as they were written.
struct GrammarSyntax {
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;  // of code points, both ends included

  struct Node {
    enum class Kind : uint8_t { text, ranges, token, rule, sequence, choice, repeat };
    Kind kind = Kind::sequence;
    std::string text = {};  // bytes
    Ranges ranges = {};     // sorted and disjoint
    Grammar::TokenReference token = {};
    size_t rule = 0;               // its number
    std::vector<Node> parts = {};  // of a sequence, a choice or a repetition
    int64_t least = 0, most = 0;   // of a repetition; most < 0: any number
  };
  struct Rule {
    std::string name = {};
    Node body = {};
    bool defined = false;
    size_t position = 0;  // where it is first named
  };
  std::vector<Rule> rules = {};
};

/// Throws, with line and column, for what is not GBNF. Limits: 200,000 nodes, 200 levels.
GrammarSyntax parse_grammar(std::string_view text);

/// "line 3, column 7", for messages.
std::string place_in(std::string_view text, size_t position);

/// Throws if a rule can come back to itself before it has read anything.
void refuse_left_recursion(const GrammarSyntax& syntax, std::string_view text);

}  // namespace tensora::llm
