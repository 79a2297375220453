#include "tensora/serve/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace tensora::serve {
namespace {

// Bytes that stand for themselves in a string: ASCII but controls, quote and backslash.
constexpr std::array<bool, 256> make_plain() {
  std::array<bool, 256> plain{};
  for (size_t byte = 0x20; byte < 0x80; ++byte) plain[byte] = byte != '"' && byte != '\\';
  plain[0x7f] = false;
  return plain;
}
constexpr std::array<bool, 256> kPlain = make_plain();

// The length of the character at the front of `text`, which is not ASCII; 0: it is not UTF-8.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const unsigned char first = byte(0);
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xe0 && byte(1) < 0xa0) return 0;  // could be shorter
    if (first == 0xed && byte(1) > 0x9f) return 0;  // a surrogate
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;  // beyond U+10FFFF
    return 4;
  }
  return 0;
}

void append_escape(std::string& out, unsigned char byte) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
  }
}

template <typename T>
void append_number(std::string& out, T number) {
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && kPlain[static_cast<unsigned char>(text[end])]) ++end;
    out.append(text, at, end - at);
    if ((at = end) == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      append_escape(out, byte);
      ++at;
    } else if (const size_t length = character_length(text.substr(at))) {
      out.append(text, at, length);
      at += length;
    } else {
      out += "\xef\xbf\xbd";
      ++at;
    }
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

void append_json(std::string& out, double number) {
  if (std::isfinite(number))
    append_number(out, number);
  else
    out += "null";
}
void append_json(std::string& out, float number) {
  if (std::isfinite(number))
    append_number(out, number);
  else
    out += "null";
}
void append_json(std::string& out, int64_t number) { append_number(out, number); }
void append_json(std::string& out, uint64_t number) { append_number(out, number); }

}  // namespace tensora::serve
