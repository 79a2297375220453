#include "tensora/llm/tokenizer/added_tokens.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/unicode_classes.h"

namespace tensora::llm {
namespace {

bool is_word(uint32_t code) {
  const UnicodeCategory kind = unicode_category(code);
  return kind <= UnicodeCategory::Nl || kind == UnicodeCategory::Pc;  // letters, marks, digits
}

bool is_space(uint32_t code) {
  return code == ' ' || (code >= 9 && code <= 13) || code == 0x85 || code == 0x2028 ||
         code == 0x2029 || unicode_category(code) == UnicodeCategory::Zs;
}

// The character that ends at `at`, and where it starts.
std::pair<uint32_t, size_t> character_before(std::string_view text, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  const CodePoint point = decode_utf8(text.substr(start, at - start));
  if (start + static_cast<size_t>(point.length) != at) return {kInvalidUtf8, at - 1};
  return {point.code, start};
}

}  // namespace

void AddedTokens::add(AddedToken token) {
  check(!token.text.empty(), "the added token ", token.token, " has no text");
  starts_[static_cast<uint8_t>(token.text[0])] = true;
  trie_.insert(token.text, static_cast<Token>(tokens_.size()));
  tokens_.push_back(std::move(token));
}

AddedTokens::Found AddedTokens::next(std::string_view text, size_t from, bool control) const {
  for (size_t at = from; at < text.size() && !tokens_.empty(); ++at) {
    if (!starts_[static_cast<uint8_t>(text[at])]) continue;
    const AddedToken* best = nullptr;
    trie_.prefixes(text.substr(at), [&](size_t length, Token place) {
      const AddedToken& token = tokens_[static_cast<size_t>(place)];
      if (token.control && !control) return;
      const size_t end = at + length;
      const bool touched = (at > 0 && is_word(character_before(text, at).first)) ||
                           (end < text.size() && is_word(decode_utf8(text.substr(end)).code));
      if (!token.single_word || !touched) best = &token;
    });
    if (!best) continue;
    size_t start = at, end = at + best->text.size();
    while (best->strip_left && start > from) {
      const auto [code, before] = character_before(text, start);
      if (!is_space(code)) break;
      start = before;
    }
    while (best->strip_right && end < text.size()) {
      const CodePoint point = decode_utf8(text.substr(end));
      if (!is_space(point.code)) break;
      end += static_cast<size_t>(point.length);
    }
    return {start, end, best->token};
  }
  return {text.size(), text.size(), -1};
}

}  // namespace tensora::llm
