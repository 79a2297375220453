#include "tensora/llm/tokenizer/pattern_syntax.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"

namespace tensora::llm {
namespace {

using Kind = PatternNode::Kind;

bool matches_empty(const PatternNode& node) {
  switch (node.kind) {
    case Kind::one:
      return false;
    case Kind::ahead:
      return true;
    case Kind::repeated:
      return node.least == 0 || matches_empty(node.children[0]);
    case Kind::all:
      return std::all_of(node.children.begin(), node.children.end(), matches_empty);
    case Kind::either:
      return std::any_of(node.children.begin(), node.children.end(), matches_empty);
  }
  return false;
}

// The characters that a match can begin with.
CharSet first_of(const PatternNode& node) {
  CharSet out = node.kind == Kind::one ? node.set : CharSet();
  for (const PatternNode& child : node.children) {
    out.add(first_of(child));
    if (node.kind == Kind::all && !matches_empty(child)) break;
  }
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PatternNode parse() {
    PatternNode out = either();
    check(at_ == text_.size(), "unmatched ')' at ", at_);
    return out;
  }

 private:
  bool more() const { return at_ < text_.size(); }
  bool looking_at(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool accept(std::string_view what) {
    if (!looking_at(what)) return false;
    at_ += what.size();
    return true;
  }
  uint32_t take() {
    check(more(), "it ends too early");
    const auto [code, length] = decode_utf8(text_.substr(at_));
    check(code != kInvalidUtf8, "it is not UTF-8");
    at_ += static_cast<size_t>(length);
    return code;
  }

  PatternNode either() {
    check(++depth_ <= 64, "groups are nested too deeply");
    PatternNode out{.kind = Kind::either};
    do {
      out.children.push_back(sequence());
    } while (accept("|"));
    --depth_;
    return out.children.size() == 1 ? std::move(out.children[0]) : out;
  }

  PatternNode sequence() {
    PatternNode out;
    std::vector<size_t> possessive;
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      out.children.push_back(atom());
      if (quantified(out.children.back())) possessive.push_back(out.children.size() - 1);
    }
    for (const size_t i : possessive) {
      // What a possessive item keeps must be of no use to what follows it.
      PatternNode rest;
      rest.children.assign(out.children.begin() + static_cast<int64_t>(i) + 1, out.children.end());
      const PatternNode& item = out.children[i].children[0];
      check(item.kind == Kind::one && (matches_empty(rest) || !item.set.meets(first_of(rest))),
            "a possessive quantifier is not supported here");
    }
    return out;
  }

  // Wraps the atom in the quantifier that follows it; true if that is possessive.
  bool quantified(PatternNode& atom) {
    int least = 1, most = 1;
    if (accept("?")) {
      least = 0;
    } else if (accept("*")) {
      least = 0, most = PatternNode::kNoLimit;
    } else if (accept("+")) {
      most = PatternNode::kNoLimit;
    } else if (looking_at("{") && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
      ++at_;
      least = most = number();
      if (accept(",")) most = looking_at("}") ? PatternNode::kNoLimit : number();
      check(accept("}") && (most < 0 || least <= most), "a bad repetition at ", at_);
    } else {
      return false;
    }
    PatternNode out{.kind = Kind::repeated, .least = least, .most = most};
    out.lazy = accept("?");
    const bool possessive = !out.lazy && accept("+");
    out.children.push_back(std::move(atom));
    atom = std::move(out);
    return possessive;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  int number() {
    check(more() && is_digit(text_[at_]), "a number is expected at ", at_);
    int out = 0;
    for (; more() && is_digit(text_[at_]) && out <= 1000; ++at_)
      out = out * 10 + (text_[at_] - '0');
    check(out <= 1000, "more than 1000 repetitions");
    return out;
  }

  PatternNode one(const CharSet& set) const {
    return {.kind = Kind::one, .set = any_case_ ? set.any_case() : set};
  }

  PatternNode atom() {
    if (accept("(")) return group();
    if (accept("[")) return {.kind = Kind::one, .set = char_class()};
    if (accept(".")) return {.kind = Kind::one, .set = CharSet('\n', '\n').complement()};
    if (accept("$")) return {.kind = Kind::ahead, .at_end = true};
    check(!looking_at("^") && !looking_at("*") && !looking_at("+") && !looking_at("?"), "'",
          text_.substr(at_, 1), "' at ", at_, " is not supported");
    if (accept("\\z")) return {.kind = Kind::ahead, .at_end = true};
    if (accept("\\")) return one(escape());
    const uint32_t code = take();
    return one({code, code});
  }

  PatternNode group() {
    const bool before = any_case_;
    PatternNode out;
    if (accept("?!") || accept("?=")) {
      const bool negative = text_[at_ - 1] == '!';
      out = ahead(either(), negative);
    } else {
      if (accept("?i:"))
        any_case_ = true;
      else if (!accept("?:"))
        check(!looking_at("?"), "the group '(", text_.substr(at_, 3), "' is not supported");
      out = either();
    }
    any_case_ = before;
    check(accept(")"), "a group is not closed");
    return out;
  }

  // Looking ahead is limited to one character: an automaton sees no further.
  static PatternNode ahead(const PatternNode& inner, bool negative) {
    const PatternNode* node = &inner;
    while (node->kind == Kind::all && node->children.size() == 1) node = &node->children[0];
    check(node->kind == Kind::one, "looking ahead is supported for one character only");
    return {.kind = Kind::ahead,
            .set = negative ? node->set.complement() : node->set,
            .at_end = negative};
  }

  // After a backslash.
  CharSet escape() {
    const uint32_t code = take();
    switch (code) {
      case 's':
        return CharSet::spaces();
      case 'S':
        return CharSet::spaces().complement();
      case 'd':
        return CharSet::digits();
      case 'D':
        return CharSet::digits().complement();
      case 'w':
        return CharSet::word();
      case 'W':
        return CharSet::word().complement();
      case 'n':
        return {'\n', '\n'};
      case 'r':
        return {'\r', '\r'};
      case 't':
        return {'\t', '\t'};
      case 'f':
        return {'\f', '\f'};
      case 'v':
        return {'\v', '\v'};
      case 'p':
        return property();
      case 'P':
        return property().complement();
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      default:
        break;
    }
    const bool plain = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
                       (code >= 'a' && code <= 'z') || code >= 128;
    check(!plain, "the escape at ", at_ - 1, " is not supported");
    return {code, code};
  }

  CharSet hexadecimal(int digits) {
    const bool braces = accept("{");
    uint32_t code = 0;
    for (int i = 0; braces ? !looking_at("}") : i < digits; ++i) {
      const uint32_t digit = take();
      const uint32_t low = digit | 0x20;
      check(i < 6 && ((digit >= '0' && digit <= '9') || (low >= 'a' && low <= 'f')),
            "a bad hexadecimal number at ", at_);
      code = code << 4 | (digit <= '9' ? digit - '0' : low - 'a' + 10);
    }
    if (braces) ++at_;
    check(code <= 0x10FFFF, "a code point beyond Unicode");
    return {code, code};
  }

  CharSet property() {
    if (!accept("{")) {
      const size_t start = at_;
      take();
      return CharSet::property(text_.substr(start, at_ - start));
    }
    const size_t end = text_.find('}', at_);
    check(end != text_.npos, "a property is not closed");
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = end + 1;
    if (name.starts_with('^')) return CharSet::property(name.substr(1)).complement();
    return CharSet::property(name);
  }

  // After the opening bracket.
  CharSet char_class() {
    const bool negative = accept("^");
    CharSet out;
    bool first = true;
    while (first || !accept("]")) {
      first = false;
      check(more(), "a class is not closed");
      check(!looking_at("[") && !looking_at("&&"), "nested classes are not supported");
      const CharSet item = class_item();
      const bool single =
          item.ranges().size() == 1 && item.ranges()[0].first == item.ranges()[0].last;
      if (single && looking_at("-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const CharSet last = class_item();
        check(last.ranges().size() == 1 && last.ranges()[0].first == last.ranges()[0].last &&
                  last.ranges()[0].first >= item.ranges()[0].first,
              "a bad range in a class at ", at_);
        out.add({item.ranges()[0].first, last.ranges()[0].first});
      } else {
        out.add(item);
      }
    }
    if (any_case_) out = out.any_case();
    return negative ? out.complement() : out;
  }

  CharSet class_item() {
    if (accept("\\")) return escape();
    const uint32_t code = take();
    return {code, code};
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool any_case_ = false;
};

}  // namespace

PatternNode parse_pattern(std::string_view expression) {
  check(expression.size() <= 10000, "the pattern has ", expression.size(),
        " bytes; at most 10000 are supported");
  try {
    return Parser(expression).parse();
  } catch (const Error& error) {
    fail("the pattern '", expression.substr(0, 200), "': ", error.what());
  }
}

}  // namespace tensora::llm
