#include "tensora/llm/chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}

// One kind of line end, and none at the end of the template.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) data();
    add(Token::Kind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts(std::string_view text) const { return rest().starts_with(text); }
  bool take(std::string_view text) {
    if (!starts(text)) return false;
    at_ += text.size();
    return true;
  }

  // Positions only grow, so lines are counted as they pass.
  Place place(size_t position) {
    for (; counted_ < position && counted_ < source_.size(); ++counted_)
      if (source_[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
    return {line_, static_cast<int>(position - line_start_) + 1};
  }
  void add(Token::Kind kind, std::string text, size_t position) {
    tokens_.push_back({kind, std::move(text), place(position)});
  }
  template <class... Parts>
  [[noreturn]] void fail_here(size_t position, const Parts&... parts) {
    fail_at(place(position), concat(parts...));
  }

  void skip_blank() { at_ = source_.size() - strip(rest(), {.right = false}).size(); }

  // Text up to the next tag, and the beginning of that.
  void data() {
    const size_t start = at_;
    size_t tag = start;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        emit(start, source_.size());
        at_ = source_.size();
        return;
      }
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
    }
    const char kind = source_[tag + 1];
    at_ = tag + 2;
    const char sign = take("-") ? '-' : take("+") ? '+' : ' ';
    emit(start, data_end(start, tag, sign, kind != '{'));
    if (kind == '#') return comment(tag);
    if (kind == '{') {
      add(Token::Kind::print_begin, "", tag);
      return expression(Token::Kind::print_end, tag);
    }
    if (raw_begins()) return raw(tag);
    add(Token::Kind::block_begin, "", tag);
    expression(Token::Kind::block_end, tag);
  }

  void emit(size_t start, size_t end) {
    if (end > start) add(Token::Kind::data, source_.substr(start, end - start), start);
  }

  // Where the text before a tag ends once blanks are taken away.
  size_t data_end(size_t start, size_t tag, char sign, bool strips_line) const {
    const std::string_view text = std::string_view(source_).substr(start, tag - start);
    if (sign == '-') return start + strip(text, {.left = false}).size();
    if (sign == '+' || !strips_line) return tag;
    const size_t line = text.rfind('\n');
    if (line == std::string_view::npos && !(start == 0 || source_[start - 1] == '\n')) return tag;
    const size_t from = line == std::string_view::npos ? 0 : line + 1;
    return strip(text.substr(from)).empty() ? start + from : tag;
  }

  // The end of a tag: `close` with a sign before it.
  bool take_end(std::string_view close, bool trims) {
    const size_t before = at_;
    if (take("-") && take(close)) {
      skip_blank();
      return true;
    }
    at_ = before;
    if (trims && take("+") && take(close)) return true;
    at_ = before;
    if (!take(close)) return false;
    if (trims) take("\n");
    return true;
  }

  void comment(size_t tag) {
    const size_t close = source_.find("#}", at_);
    if (close == std::string::npos) fail_here(tag, "the comment that begins here does not end");
    const char sign = close > at_ ? source_[close - 1] : ' ';
    at_ = close + 2;
    if (sign == '-')
      skip_blank();
    else if (sign != '+')
      take("\n");
  }

  bool raw_begins() {
    const size_t before = at_;
    skip_blank();
    if (take("raw")) {
      skip_blank();
      const bool trims = take("-");
      if (take("%}")) {
        if (trims) skip_blank();
        return true;
      }
    }
    at_ = before;
    return false;
  }

  void raw(size_t tag) {
    const size_t start = at_;
    for (size_t open = source_.find("{%", start); open != std::string::npos;
         open = source_.find("{%", open + 1)) {
      at_ = open + 2;
      const char sign = take("-") ? '-' : take("+") ? '+' : ' ';
      skip_blank();
      if (!take("endraw")) continue;
      skip_blank();
      if (!take_end("%}", true)) continue;
      return emit(start, data_end(start, open, sign, true));
    }
    fail_here(tag, "the raw block that begins here does not end");
  }

  void expression(Token::Kind closing, size_t tag) {
    const bool block = closing == Token::Kind::block_end;
    std::vector<char> open;
    for (;;) {
      skip_blank();
      if (at_ >= source_.size()) fail_here(tag, "the tag that begins here does not end");
      const size_t start = at_;
      if (open.empty() && take_end(block ? "%}" : "}}", block)) {
        add(closing, "", start);
        return;
      }
      const char c = source_[at_];
      if (c == '\'' || c == '"') {
        add(Token::Kind::text, text_literal(c), start);
      } else if (is_digit(c)) {
        number();
      } else if (is_letter(c)) {
        while (at_ < source_.size() && (is_letter(source_[at_]) || is_digit(source_[at_]))) ++at_;
        add(Token::Kind::name, source_.substr(start, at_ - start), start);
      } else {
        sign(open);
      }
    }
  }

  void sign(std::vector<char>& open) {
    static constexpr std::array<std::string_view, 30> signs = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const size_t start = at_;
    for (const std::string_view sign : signs) {
      if (sign.empty() || !take(sign)) continue;
      const char c = sign[0];
      if (c == '(' || c == '[' || c == '{') open.push_back(c);
      if (c == ')' || c == ']' || c == '}') {
        const char opener = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != opener) fail_here(start, "unexpected ", c);
        open.pop_back();
      }
      return add(Token::Kind::sign, std::string(sign), start);
    }
    fail_here(start, "unexpected ", valid_utf8(rest().substr(0, 1)));
  }

  void digits(std::string& out, bool (*accept)(char)) {
    while (at_ < source_.size() && (accept(source_[at_]) || source_[at_] == '_'))
      if (source_[at_++] != '_') out += source_[at_ - 1];
  }

  void number() {
    const size_t start = at_;
    std::string text;
    const char second = at_ + 1 < source_.size() ? source_[at_ + 1] : ' ';
    const int base = source_[at_] != '0'              ? 10
                     : second == 'x' || second == 'X' ? 16
                     : second == 'o' || second == 'O' ? 8
                     : second == 'b' || second == 'B' ? 2
                                                      : 10;
    if (base != 10) {
      at_ += 2;
      digits(text, [](char c) {
        return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      });
      const auto value = parse_integer(text, base);
      if (!value) fail_here(start, "expected a number");
      return add(Token::Kind::integer, std::to_string(*value), start);
    }
    digits(text, is_digit);
    bool real = false;
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      real = true;
      ++at_;
      text += '.';
      digits(text, is_digit);
    }
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      const size_t before = at_++;
      std::string exponent = "e";
      if (at_ < source_.size() && (source_[at_] == '+' || source_[at_] == '-'))
        exponent += source_[at_++];
      if (at_ < source_.size() && is_digit(source_[at_])) {
        digits(exponent, is_digit);
        text += exponent;
        real = true;
      } else {
        at_ = before;
      }
    }
    if (!real && text[0] == '0' && text.find_first_not_of('0') != std::string::npos)
      fail_here(start, "expected a number that does not begin with 0");
    add(real ? Token::Kind::real : Token::Kind::integer, text, start);
  }

  std::string text_literal(char quote) {
    const size_t start = at_++;
    std::string out;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\')
        escape(out);
      else
        out += source_[at_++];
    }
    if (at_ >= source_.size()) fail_here(start, "the text that begins here does not end");
    ++at_;
    return out;
  }

  // Python's escapes; a backslash before anything else stands for itself.
  void escape(std::string& out) {
    const size_t start = at_++;
    const char c = at_ < source_.size() ? source_[at_] : ' ';
    static constexpr std::string_view from = "\\'\"abfnrtv", to = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t simple = from.find(c); simple != std::string_view::npos) {
      ++at_;
      out += to[simple];
    } else if (c == '\n') {
      ++at_;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string_view digits = std::string_view(source_).substr(at_ + 1, count);
      // Not a sign or a blank, which a number may have.
      const bool plain =
          digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
      const auto code = parse_integer(digits, 16);
      if (!plain || !code || at_ + 1 + count > source_.size() || *code > 0x10FFFF ||
          (*code >= 0xD800 && *code <= 0xDFFF))
        fail_here(start, "expected ", count, " hexadecimal digits of a code point after \\", c);
      append_utf8(out, static_cast<uint32_t>(*code));
      at_ += 1 + count;
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      for (int i = 0; i < 3 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7';
           ++i)
        code = code * 8 + static_cast<uint32_t>(source_[at_++] - '0');
      append_utf8(out, code);
    } else {
      out += '\\';
    }
  }

  std::string source_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
  size_t counted_ = 0, line_start_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

void fail_at(const Place& place, const std::string& message) {
  fail("template: line ", place.line, ", column ", place.column, ": ", message);
}

}  // namespace tensora::llm::jinja
