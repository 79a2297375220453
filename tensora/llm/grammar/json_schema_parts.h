#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensora::llm {

// Parts of json_schema_to_grammar. Each returns an expression of GBNF that may stand in a sequence.

/// A text, as GBNF writes it.
std::string gbnf_text(std::string_view text);
/// A class of code points, as GBNF writes it.
std::string gbnf_class(const std::vector<std::pair<uint32_t, uint32_t>>& ranges);
/// All code points but these.
std::string gbnf_class_except(const std::vector<std::pair<uint32_t, uint32_t>>& ranges);
/// A text, as JSON writes it.
std::string json_text(std::string_view text);

/// Integers in a range, without leading zeros; bounds of up to 18 digits.
std::string gbnf_integer(std::optional<int64_t> least, std::optional<int64_t> most);

/// The inside of a JSON text that a regular expression (of ECMAScript, a subset) finds something
/// in. `any` is the rule of one character of a JSON text. `where` begins messages.
std::string gbnf_pattern(std::string_view pattern, const std::string& any, std::string_view where);

}  // namespace tensora::llm
