#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/chat/jinja/budget.h"

namespace tensora::llm::jinja {

// Texts as Python sees them: sequences of code points, of which each has a class.

struct StripOptions {
  bool left = true;
  bool right = true;
  std::optional<std::string> letters = {};  // blanks if not given
};
std::string_view strip(std::string_view text, const StripOptions& options = {});

size_t code_points(std::string_view text);
/// Cuts a text into its code points.
using Letters = std::vector<std::string_view, ChargedAllocator<std::string_view>>;
Letters letters_of(std::string_view text);
/// The bytes of the first `count` code points; all if there are fewer.
size_t bytes_of(std::string_view text, int64_t count);

/// Where `what` is first found at or after `from`, or last; npos if it is not. The time is bounded
/// by the bytes that are charged: std::string::find may compare all of `what` at every byte.
size_t find_first(std::string_view text, std::string_view what, size_t from = 0);
size_t find_last(std::string_view text, std::string_view what);

bool is_blank(uint32_t code);
bool is_letter(uint32_t code);
/// Digits and all other characters for numbers; of these, `is_digit` those of decimal numbers.
bool is_numeral(uint32_t code);
bool is_digit(uint32_t code);
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// First letters of words, or of the text, in upper case and the others in lower case.
std::string to_title(std::string_view text);
/// The same for words that end at blanks, hyphens and opening brackets.
std::string to_words(std::string_view text);
std::string to_capitalized(std::string_view text);

/// The whole text as an integer; none if it is not one, or does not fit.
std::optional<int64_t> parse_integer(std::string_view text, int base = 10);
std::optional<double> parse_real(std::string_view text);

/// Replaces up to `count` occurrences (all if negative), as str.replace.
std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t count);

}  // namespace tensora::llm::jinja
