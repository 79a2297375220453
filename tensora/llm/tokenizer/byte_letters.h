#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tensora::llm {

// Where tokens are bytes, their files write each byte as a printable letter: itself if it is one,
// else one of the letters from U+0100 on, in order.

/// The bytes in letters.
std::string to_byte_letters(std::string_view bytes);
/// The bytes of a text that is written in letters; none if it contains other letters.
std::optional<std::string> from_byte_letters(std::string_view text);

}  // namespace tensora::llm
