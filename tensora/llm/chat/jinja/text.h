#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
std::vector<std::string_view> letters_of(std::string_view text);

bool is_blank(uint32_t code);
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
