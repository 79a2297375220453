#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensora {

/// What is not UTF-8: its code points end at 0x10FFFF.
inline constexpr uint32_t kInvalidUtf8 = 0xFFFFFFFF;

struct CodePoint {
  uint32_t code;  // kInvalidUtf8 for a byte that is not the start of a well-formed sequence
  int length;     // in bytes; 1 for such a byte
};

/// The first code point of a text that is not empty. Overlong forms, surrogates and torn sequences
/// are not well-formed.
CodePoint decode_utf8(std::string_view text);
/// The text with U+FFFD in the place of every byte that is not UTF-8.
std::string valid_utf8(std::string_view text);
/// Adds the UTF-8 form of a code point.
void append_utf8(std::string& out, uint32_t code);

}  // namespace tensora
