#include "tensora/llm/tokenizer/vocabulary.h"

#include <algorithm>

#include "tensora/base/check.h"

namespace tensora::llm {

void Vocabulary::reserve(size_t count) {
  texts_.reserve(count);
  kinds_.reserve(count);
  scores_.reserve(count);
  table_.reserve(count);
}

Token Vocabulary::add(std::string text, TokenKind kind, double score) {
  check(texts_.size() < (1u << 24), "the vocabulary has more than ", 1 << 24, " tokens");
  const Token token = size();
  texts_.push_back(std::move(text));
  kinds_.push_back(kind);
  scores_.push_back(score);
  const bool named =
      kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::byte;
  (named ? names_ : table_).insert(texts_, token);
  return token;
}

void Vocabulary::set_pieces(std::vector<std::string> pieces) {
  ensure(pieces.size() == texts_.size(), "Vocabulary: a piece per token is expected");
  pieces_ = std::move(pieces);
}

void Vocabulary::set_byte(uint8_t byte, Token token) {
  if (bytes_[byte] < 0) bytes_[byte] = token;
}

bool Vocabulary::has_all_bytes() const {
  return std::all_of(bytes_.begin(), bytes_.end(), [](Token token) { return token >= 0; });
}

int byte_of_name(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int out = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    out = out * 16 + digit;
  }
  return out;
}

std::string with_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t at = text.find(kSpaceMark);
    out += text.substr(0, at);
    if (at == text.npos) break;
    out += ' ';
    text.remove_prefix(at + kSpaceMark.size());
  }
  return out;
}

}  // namespace tensora::llm
