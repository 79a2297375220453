#include "tensora/llm/tokenizer/word_scanner.h"

#include <array>

#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/unicode_classes.h"

namespace tensora::llm {
namespace {

struct Letter {
  UnicodeClass kind;
  size_t length;
};

const std::array<UnicodeClass, 128>& ascii_classes() {
  static const auto table = [] {
    std::array<UnicodeClass, 128> classes{};
    for (uint32_t code = 0; code < 128; ++code) classes[code] = unicode_class(code);
    return classes;
  }();
  return table;
}

Letter letter_at(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 128) return {ascii_classes()[byte], 1};
  const auto [code, length] = decode_utf8(text.substr(at));
  const UnicodeClass kind = code == kInvalidUtf8 ? UnicodeClass::other : unicode_class(code);
  return {kind, static_cast<size_t>(length)};
}

// The length of "'s", "'ll" and so on at the front; 0 if there is none.
size_t contraction(std::string_view text) {
  if (text[0] != '\'') return 0;
  for (const std::string_view end : {"s", "t", "re", "ve", "m", "ll", "d"})
    if (text.substr(1).starts_with(end)) return 1 + end.size();
  return 0;
}

}  // namespace

std::string_view WordScanner::next() {
  if (rest_.empty()) return {};
  size_t end = contraction(rest_);
  if (end == 0) {
    Letter first = letter_at(rest_, 0);
    // One blank belongs to what follows it.
    if (rest_[0] == ' ' && rest_.size() > 1 && letter_at(rest_, 1).kind != UnicodeClass::space) {
      first = letter_at(rest_, 1);
      end = 1;
    }
    size_t last = end;  // where the last letter of the run starts
    while (end < rest_.size()) {
      const Letter letter = letter_at(rest_, end);
      if (letter.kind != first.kind) break;
      last = end;
      end += letter.length;
    }
    // Of several spaces before a word, the last is left for it.
    if (first.kind == UnicodeClass::space && end < rest_.size() && last > 0) end = last;
  }
  const std::string_view word = rest_.substr(0, end);
  rest_.remove_prefix(end);
  return word;
}

}  // namespace tensora::llm
