#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensora::llm {

/// Unicode's normalization forms. Bytes that are not UTF-8 stay as they are.
enum class UnicodeForm : uint8_t { nfc, nfd, nfkc, nfkd };
std::string to_form(std::string_view text, UnicodeForm form);

/// The lower-case form of a code point, where it is a single one; else the code point.
uint32_t to_lower(uint32_t code);
std::string to_lower(std::string_view text);

}  // namespace tensora::llm
