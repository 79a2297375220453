#include "tensora/llm/grammar/grammar_syntax.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"

namespace tensora::llm {
namespace {

constexpr size_t kMaxNodes = 200'000;
constexpr int kMaxDepth = 200;
constexpr int64_t kMaxRepetitions = 100'000;
constexpr uint32_t kLastCode = 0x10FFFF;

using Node = GrammarSyntax::Node;
using Ranges = GrammarSyntax::Ranges;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

void normalize(Ranges& ranges, bool negated) {
  std::sort(ranges.begin(), ranges.end());
  Ranges merged;
  for (const auto& [from, to] : ranges) {
    if (!merged.empty() && from <= merged.back().second + 1)
      merged.back().second = std::max(merged.back().second, to);
    else
      merged.emplace_back(from, to);
  }
  if (negated) {
    Ranges others;
    uint32_t next = 0;
    for (const auto& [from, to] : merged) {
      if (from > next) others.emplace_back(next, from - 1);
      next = to + 1;
    }
    if (next <= kLastCode) others.emplace_back(next, kLastCode);
    merged = std::move(others);
  }
  ranges = std::move(merged);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  GrammarSyntax parse() {
    skip_blank(true);
    while (!at_end()) {
      rule();
      skip_blank(true);
    }
    for (const GrammarSyntax::Rule& rule : syntax_.rules)
      expect(rule.defined, rule.position, "rule ", rule.name, " is used but not defined");
    expect(names_.contains("root"), 0, "expected a rule named root, got none");
    return std::move(syntax_);
  }

 private:
  template <class... Parts>
  void expect(bool ok, size_t position, const Parts&... parts) const {
    if (!ok) fail("grammar: ", place_in(text_, position), ": ", parts...);
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  std::string shown() const {
    return at_end() ? "the end" : concat("'", valid_utf8(text_.substr(at_, 1)), "'");
  }

  // Blanks and comments; line ends too where a rule may go on.
  void skip_blank(bool lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string name() {
    const size_t start = at_;
    while (!at_end() && is_name(peek())) ++at_;
    expect(at_ > start, start, "expected the name of a rule, got ", shown());
    return std::string(text_.substr(start, at_ - start));
  }

  size_t rule_number(const std::string& name, size_t position) {
    const auto [found, added] = names_.try_emplace(name, syntax_.rules.size());
    if (added) syntax_.rules.push_back({.name = name, .position = position});
    return found->second;
  }

  void rule() {
    const size_t start = at_;
    const std::string named = name();
    skip_blank(false);
    expect(text_.substr(at_, 3) == "::=", at_, "expected ::= after ", named, ", got ", shown());
    at_ += 3;
    skip_blank(true);
    const size_t number = rule_number(named, start);
    expect(!syntax_.rules[number].defined, start, "rule ", named, " is defined twice");
    Node body = choice(false);
    expect(at_end() || peek() == '\n' || peek() == '\r', at_, "expected the end of the rule ",
           named, ", got ", shown());
    syntax_.rules[number].body = std::move(body);
    syntax_.rules[number].defined = true;
  }

  Node node(Node::Kind kind) {
    expect(++nodes_ <= kMaxNodes, at_, "the grammar is too large: more than ", kMaxNodes, " parts");
    return {.kind = kind};
  }

  // Whether an alternative follows; a rule goes on in a line that begins with one.
  bool another_choice(bool nested) {
    const size_t before = at_;
    skip_blank(true);
    if (peek() == '|') {
      ++at_;
      skip_blank(true);
      return true;
    }
    if (!nested) at_ = before;
    return false;
  }

  Node choice(bool nested) {
    expect(++depth_ <= kMaxDepth, at_, "parentheses are nested too deeply: more than ", kMaxDepth);
    Node out = node(Node::Kind::choice);
    do out.parts.push_back(sequence(nested));
    while (another_choice(nested));
    --depth_;
    if (out.parts.size() > 1) return out;
    Node only = std::move(out.parts[0]);
    return only;
  }

  Node sequence(bool nested) {
    Node out = node(Node::Kind::sequence);
    for (skip_blank(nested); !at_end(); skip_blank(nested)) {
      const char c = peek();
      if (c == '|' || c == ')' || c == '\n' || c == '\r') break;
      Node part = item();
      while (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
        part = repetition(std::move(part));
      out.parts.push_back(std::move(part));
    }
    return out;
  }

  Node item() {
    const size_t start = at_;
    const char c = peek();
    if (c == '"') return text_literal();
    if (c == '[') return character_class();
    if (c == '<' || c == '!') return token_reference();
    if (c == '.') {
      ++at_;
      Node any = node(Node::Kind::ranges);
      any.ranges = {{0, kLastCode}};
      return any;
    }
    if (c == '(') {
      ++at_;
      Node inner = choice(true);
      skip_blank(true);
      if (peek() != ')')  // finding the line of `start` takes as long as the text before it
        expect(false, at_, "expected ) for the ( at ", place_in(text_, start), ", got ", shown());
      ++at_;
      return inner;
    }
    expect(is_name(c), at_, "expected a text, a class, a token, a rule or (, got ", shown());
    Node reference = node(Node::Kind::rule);
    const std::string named = name();
    reference.rule = rule_number(named, start);
    return reference;
  }

  Node text_literal() {
    const size_t start = at_++;
    Node out = node(Node::Kind::text);
    while (peek() != '"' || at_end()) {
      expect(!at_end() && peek() != '\n', start, "the text that begins here does not end");
      append_utf8(out.text, character());
    }
    ++at_;
    return out;
  }

  // <text>, <[id]>, or one of these after a !.
  Node token_reference() {
    const size_t start = at_;
    Node out = node(Node::Kind::token);
    out.token.negated = peek() == '!';
    if (out.token.negated) ++at_;
    expect(peek() == '<', at_, "expected a token in < > after !, got ", shown());
    const size_t end = text_.find_first_of(">\n", at_);
    expect(end != text_.npos && text_[end] == '>' && end > at_ + 1, start,
           "expected a token in < >, got no text or no >");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.starts_with('[') && inside.ends_with(']')) {
      const std::string_view digits = inside.substr(1, inside.size() - 2);
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), out.token.id);
      expect(error == std::errc() && stop == digits.data() + digits.size() && out.token.id >= 0,
             start, "expected the id of a token in <[ ]>, got ", valid_utf8(digits));
    } else {
      out.token.text = text_.substr(at_, end + 1 - at_);
      expect(valid_utf8(out.token.text) == out.token.text, start,
             "expected UTF-8, got other bytes");
    }
    at_ = end + 1;
    return out;
  }

  Node character_class() {
    const size_t start = at_++;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    Node out = node(Node::Kind::ranges);
    while (peek() != ']' || at_end()) {
      expect(!at_end() && peek() != '\n', start, "the class that begins here does not end");
      const size_t here = at_;
      const uint32_t from = character();
      uint32_t to = from;
      if (peek() == '-' && text_.substr(at_ + 1, 1) != "]") {
        ++at_;
        expect(!at_end(), start, "the class that begins here does not end");
        to = character();
      }
      expect(from <= to, here, "expected a range that rises, got one from ", from, " to ", to);
      expect(++nodes_ <= kMaxNodes, at_, "the grammar is too large");
      out.ranges.emplace_back(from, to);
    }
    ++at_;
    normalize(out.ranges, negated);
    expect(!out.ranges.empty(), start, "the class matches no character");
    return out;
  }

  uint32_t hex(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int value = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      expect(value >= 0, at_, "expected ", digits, " hexadecimal digits, got ", shown());
      code = code << 4 | static_cast<uint32_t>(value);
    }
    expect(code <= kLastCode && (code < 0xD800 || code > 0xDFFF), at_ - static_cast<size_t>(digits),
           "expected a code point, got ", code);
    return code;
  }

  uint32_t character() {
    const CodePoint point = decode_utf8(text_.substr(at_));
    expect(point.code != kInvalidUtf8, at_, "expected UTF-8, got other bytes");
    at_ += static_cast<size_t>(point.length);
    if (point.code != '\\') return point.code;
    expect(!at_end(), at_, "expected a character after \\, got the end");
    const char c = text_[at_++];
    switch (c) {
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(c);
      default:
        break;
    }
    --at_;
    expect(false, at_, "expected an escape (n r t \\ \" [ ] - ^ x u U) after \\, got ", shown());
    return 0;
  }

  int64_t count() {
    const size_t start = at_;
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min<int64_t>(value * 10 + (text_[at_++] - '0'), kMaxRepetitions + 1);
    }
    expect(at_ > start, start, "expected a number, got ", shown());
    expect(value <= kMaxRepetitions, start, "expected at most ", kMaxRepetitions, " repetitions");
    return value;
  }

  Node repetition(Node part) {
    const size_t start = at_;
    Node out = node(Node::Kind::repeat);
    const char c = text_[at_++];
    out.least = c == '+' ? 1 : 0;
    out.most = c == '?' ? 1 : -1;
    if (c == '{') {
      skip_blank(false);
      out.least = out.most = count();
      skip_blank(false);
      if (peek() == ',') {
        ++at_;
        skip_blank(false);
        out.most = peek() == '}' ? -1 : count();
        skip_blank(false);
      }
      expect(peek() == '}' && !at_end(), at_, "expected }, got ", shown());
      ++at_;
      expect(out.most < 0 || out.least <= out.most, start, "expected {least,most}, got {",
             out.least, ",", out.most, "}");
    }
    // Each level of repetition nests the tree once more, as parentheses do.
    int levels = 1;
    for (const Node* inner = &part; inner->kind == Node::Kind::repeat; inner = &inner->parts[0])
      expect(++levels <= kMaxDepth, start, "repetitions are nested too deeply");
    out.parts.push_back(std::move(part));
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t nodes_ = 0;
  int depth_ = 0;
  GrammarSyntax syntax_;
  std::unordered_map<std::string, size_t> names_;
};

}  // namespace

std::string place_in(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, position);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = start == std::string_view::npos ? position + 1 : position - start;
  return concat("line ", line, ", column ", column);
}

GrammarSyntax parse_grammar(std::string_view text) { return Parser(text).parse(); }

}  // namespace tensora::llm
