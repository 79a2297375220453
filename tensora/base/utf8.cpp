#include "tensora/base/utf8.h"

namespace tensora {

CodePoint decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < static_cast<size_t>(length))
    return {kInvalidUtf8, 1};
  uint32_t code = first & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(static_cast<size_t>(i)) & 0xC0) != 0x80) return {kInvalidUtf8, 1};
    code = code << 6 | (byte(static_cast<size_t>(i)) & 0x3F);
  }
  const uint32_t smallest = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (code < smallest || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
    return {kInvalidUtf8, 1};
  return {code, length};
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [code, length] = decode_utf8(text);
    if (code == kInvalidUtf8)
      out += "\uFFFD";
    else
      out += text.substr(0, static_cast<size_t>(length));
    text.remove_prefix(static_cast<size_t>(length));
  }
  return out;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

}  // namespace tensora
