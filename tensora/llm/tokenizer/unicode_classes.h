#pragma once

#include <cstdint>

namespace tensora::llm {

/// What the patterns of tokenizers tell apart: \p{L}, \p{N}, \s and everything else.
enum class UnicodeClass : uint8_t { other, letter, number, space };

UnicodeClass unicode_class(uint32_t code);

}  // namespace tensora::llm
