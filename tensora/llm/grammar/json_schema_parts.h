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

/// Alternatives: the integers from `least`, which is not negative, up to `most` or any.
std::string gbnf_natural(int64_t least, std::optional<int64_t> most);
/// Integers in a range, without leading zeros; bounds of up to 18 digits.
std::string gbnf_integer(std::optional<int64_t> least, std::optional<int64_t> most);

/// A bound of a number, in decimal.
struct DecimalBound {
  double value;
  bool exclusive = false;
};
/// Numbers in a range, without exponents, with up to 16 digits on either side of the point; "" if
/// there are none. `where` begins messages.
std::string gbnf_number(const std::optional<DecimalBound>& least,
                        const std::optional<DecimalBound>& most, std::string_view where);

/// The inside of a JSON text that a regular expression (of ECMAScript, a subset) finds something
/// in. `any` is the rule of one character of a JSON text. `where` begins messages.
std::string gbnf_pattern(std::string_view pattern, const std::string& any, std::string_view where);

}  // namespace tensora::llm
