#include "tensora/llm/tokenizer/byte_letters.h"

#include <array>
#include <cstdint>

#include "tensora/base/utf8.h"

namespace tensora::llm {
namespace {

constexpr uint32_t kLetters = 256 + 68;  // the last is U+0143

constexpr bool is_printable(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Table {
  std::array<uint32_t, 256> letter{};
  std::array<int16_t, kLetters> byte{};
  constexpr Table() {
    byte.fill(-1);
    uint32_t next = 256;
    for (uint32_t i = 0; i < 256; ++i) {
      letter[i] = is_printable(i) ? i : next++;
      byte[letter[i]] = static_cast<int16_t>(i);
    }
  }
};
constexpr Table table;

}  // namespace

std::string to_byte_letters(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(out, table.letter[static_cast<uint8_t>(byte)]);
  return out;
}

std::optional<std::string> from_byte_letters(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [code, length] = decode_utf8(text);
    if (code >= kLetters || table.byte[code] < 0) return std::nullopt;
    out += static_cast<char>(table.byte[code]);
    text.remove_prefix(static_cast<size_t>(length));
  }
  return out;
}

}  // namespace tensora::llm
