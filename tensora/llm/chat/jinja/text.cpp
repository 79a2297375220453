#include "tensora/llm/chat/jinja/text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/unicode_classes.h"

namespace tensora::llm::jinja {
namespace {

// Case of letters in the scripts that templates' own words are written in: Latin, Greek, Cyrillic.
uint32_t upper(uint32_t c) {
  if (c >= 'a' && c <= 'z') return c - 32;
  if (c < 0x80) return c;
  if (c == 0xB5) return 0x39C;
  if (c == 0xFF) return 0x178;
  if (c >= 0xE0 && c <= 0xFE && c != 0xF7) return c - 32;
  if (c >= 0x3B1 && c <= 0x3C9 && c != 0x3C2) return c - 32;
  if (c >= 0x430 && c <= 0x44F) return c - 32;
  if (c >= 0x450 && c <= 0x45F) return c - 80;
  if (c >= 0x100 && c <= 0x137 && c != 0x131 && c % 2 == 1) return c - 1;
  if (c >= 0x14A && c <= 0x177 && c % 2 == 1) return c - 1;
  return c;
}

uint32_t lower(uint32_t c) {
  if (c >= 'A' && c <= 'Z') return c + 32;
  if (c < 0x80) return c;
  if (c >= 0xC0 && c <= 0xDE && c != 0xD7) return c + 32;
  if (c >= 0x391 && c <= 0x3A9 && c != 0x3A2) return c + 32;
  if (c >= 0x410 && c <= 0x42F) return c + 32;
  if (c >= 0x400 && c <= 0x40F) return c + 80;
  if (c >= 0x100 && c <= 0x137 && c != 0x130 && c % 2 == 0) return c + 1;
  if (c >= 0x14A && c <= 0x177 && c % 2 == 0) return c + 1;
  return c;
}

enum class Case : uint8_t { lower, upper, title };

// Each letter in the case that `choose` says.
template <class Choose>
std::string mapped(std::string_view text, const Choose& choose) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = decode_utf8(text);
    const Case to = choose(point.code);
    if (point.code == kInvalidUtf8)
      out += text[0];
    else if (point.code == 0xDF && to != Case::lower)
      out += to == Case::upper ? "SS" : "Ss";  // one letter that becomes two
    else
      append_utf8(out, to == Case::lower ? lower(point.code) : upper(point.code));
    text.remove_prefix(static_cast<size_t>(point.length));
  }
  return out;
}

// The last code point of a text that is not empty.
std::string_view last_letter(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && text.size() - start < 4 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80)
    --start;
  const CodePoint point = decode_utf8(text.substr(start));
  return start + static_cast<size_t>(point.length) == text.size() ? text.substr(start)
                                                                  : text.substr(text.size() - 1);
}

}  // namespace

bool is_blank(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_letter(uint32_t code) {
  if (code < 0x80) return (code | 32) >= 'a' && (code | 32) <= 'z';
  return unicode_category(code) <= UnicodeCategory::Lo;
}

bool is_digit(uint32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  return unicode_category(code) == UnicodeCategory::Nd;
}

bool is_numeral(uint32_t code) {
  if (code < 0x80) return is_digit(code);
  const UnicodeCategory category = unicode_category(code);
  return category >= UnicodeCategory::Nd && category <= UnicodeCategory::No;
}

std::string_view strip(std::string_view text, const StripOptions& options) {
  std::vector<uint32_t, ChargedAllocator<uint32_t>> codes;  // of the letters that go, sorted
  if (options.letters) {
    for (const std::string_view letter : letters_of(*options.letters))
      codes.push_back(decode_utf8(letter).code);
    std::sort(codes.begin(), codes.end());
  }
  const auto goes = [&](std::string_view letter) {
    const uint32_t code = decode_utf8(letter).code;
    return options.letters ? std::binary_search(codes.begin(), codes.end(), code) : is_blank(code);
  };
  while (options.left && !text.empty()) {
    const auto length = static_cast<size_t>(decode_utf8(text).length);
    if (!goes(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (options.right && !text.empty()) {
    const std::string_view letter = last_letter(text);
    if (!goes(letter)) break;
    text.remove_suffix(letter.size());
  }
  return text;
}

size_t code_points(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(static_cast<size_t>(decode_utf8(text).length));
  return count;
}

size_t bytes_of(std::string_view text, int64_t count) {
  std::string_view rest = text;
  for (; count > 0 && !rest.empty(); --count)
    rest.remove_prefix(static_cast<size_t>(decode_utf8(rest).length));
  return text.size() - rest.size();
}

Letters letters_of(std::string_view text) {
  Letters out;
  while (!text.empty()) {
    const auto length = static_cast<size_t>(decode_utf8(text).length);
    out.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

// memmem is linear for long patterns; for those of up to 256 bytes, which it compares in full at
// every byte in the worst case, that is charged for.
size_t find_first(std::string_view text, std::string_view what, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const std::string_view rest = text.substr(from);
  const void* found = memmem(rest.data(), rest.size(), what.data(), what.size());
  const size_t at =
      found ? static_cast<size_t>(static_cast<const char*>(found) - rest.data()) : rest.size();
  charge_bytes(at * (1 + std::min<size_t>(what.size(), 256) / 32) + what.size());
  return found ? from + at : std::string_view::npos;
}

size_t find_last(std::string_view text, std::string_view what) {
  if (what.size() > text.size()) return std::string_view::npos;
  // Charged in blocks as the search goes, since it compares all of `what` in the worst case.
  constexpr size_t kBlock = 1024;
  for (size_t end = text.size();;) {
    const size_t begin = end - std::min(end, kBlock + what.size());
    charge_bytes((end - begin - what.size() + 1) * (1 + what.size() / 32) + what.size());
    const size_t found = text.substr(begin, end - begin).rfind(what);
    if (found != std::string_view::npos) return begin + found;
    if (begin == 0) return found;
    end = begin + what.size() - (what.empty() ? 0 : 1);
  }
}

std::string to_upper(std::string_view text) {
  return mapped(text, [](uint32_t) { return Case::upper; });
}

std::string to_lower(std::string_view text) {
  return mapped(text, [](uint32_t) { return Case::lower; });
}

std::string to_title(std::string_view text) {
  bool inside = false;
  return mapped(text, [&](uint32_t c) {
    const bool letter = upper(c) != c || lower(c) != c || c == 0xDF;
    return std::exchange(inside, letter) ? Case::lower : Case::title;
  });
}

std::string to_words(std::string_view text) {
  bool inside = false;
  return mapped(text, [&](uint32_t c) {
    const bool word = !is_blank(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<';
    return std::exchange(inside, word) ? Case::lower : Case::upper;
  });
}

std::string to_capitalized(std::string_view text) {
  bool first = true;
  return mapped(text,
                [&](uint32_t) { return std::exchange(first, false) ? Case::title : Case::lower; });
}

std::optional<int64_t> parse_integer(std::string_view text, int base) {
  text = strip(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text[0] == '-') return std::nullopt;
  int64_t value = 0;
  const std::string whole = (negative ? "-" : "") + std::string(text);
  const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), value, base);
  if (error != std::errc() || end != whole.data() + whole.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  text = strip(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t count) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  std::string out;
  if (from.empty()) {
    const Letters letters = letters_of(text);
    check(letters.size() < kMaxBytes / (to.size() + 4), "replace: the text becomes too long");
    for (const std::string_view letter : letters) {
      if (left > 0) out += to;
      left -= static_cast<uint64_t>(left > 0);
      out += letter;
    }
    return left > 0 ? out.append(to) : out;
  }
  for (size_t at = 0;; --left) {
    const size_t found = left == 0 ? std::string_view::npos : find_first(text, from, at);
    if (found == std::string_view::npos) return out.append(text.substr(at));
    check(out.size() + (found - at) + to.size() <= kMaxBytes, "replace: the text becomes too long");
    charge_bytes(to.size());
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
}

}  // namespace tensora::llm::jinja
