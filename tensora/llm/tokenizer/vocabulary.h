#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/token_table.h"

namespace tensora::llm {

/// What sentencepiece puts in the place of a blank: U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// The kinds of tokens, with the numbers of GGUF and sentencepiece.
enum class TokenKind : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

/// All tokens of a model: what each is called, what it stands for, and of which kind it is.
class Vocabulary {
 public:
  Vocabulary() { bytes_.fill(-1); }

  void reserve(size_t count);
  /// The next token. `text` is what the model looks for in a text; it may be there twice, and then
  /// the first is found.
  Token add(std::string text, TokenKind kind = TokenKind::normal, double score = 0);
  /// What a token stands for, where that is not its text. To be called for all tokens or none.
  void set_pieces(std::vector<std::string> pieces);
  /// The token of a single byte; a second one is ignored.
  void set_byte(uint8_t byte, Token token);

  Token size() const { return static_cast<Token>(texts_.size()); }
  bool contains(Token token) const { return token >= 0 && token < size(); }
  const std::string& text(Token token) const { return texts_[at(token)]; }
  const std::string& piece(Token token) const {
    return pieces_.empty() ? texts_[at(token)] : pieces_[at(token)];
  }
  TokenKind kind(Token token) const { return kinds_[at(token)]; }
  /// Controls the model and is not shown: control tokens and the unknown token.
  bool is_control(Token token) const {
    return kind(token) == TokenKind::control || kind(token) == TokenKind::unknown;
  }
  double score(Token token) const { return scores_[at(token)]; }
  /// A token that text can become; -1 if there is none. Control tokens and those of bytes are not
  /// found: nobody gets one by writing its name.
  Token find(std::string_view text) const { return table_.find(texts_, text); }
  /// Of any kind.
  Token find_any(std::string_view text) const {
    const Token found = find(text);
    return found >= 0 ? found : names_.find(texts_, text);
  }
  Token byte(uint8_t value) const { return bytes_[value]; }
  bool has_all_bytes() const;

 private:
  static size_t at(Token token) { return static_cast<size_t>(token); }

  std::vector<std::string> texts_, pieces_;
  std::vector<TokenKind> kinds_;
  std::vector<double> scores_;
  TokenTable table_, names_;
  std::array<Token, 256> bytes_;
};

/// The byte of "<0x0A>": exactly two hexadecimal digits. -1 for other texts.
int byte_of_name(std::string_view text);
/// With blanks for U+2581.
std::string with_spaces(std::string_view text);

}  // namespace tensora::llm
