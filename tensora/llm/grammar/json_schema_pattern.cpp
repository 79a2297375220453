#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/grammar/json_schema_parts.h"

namespace tensora::llm {
namespace {

using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

constexpr uint32_t kLast = 0x10FFFF;
constexpr int kMaxDepth = 50;

Ranges complement(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges out;
  uint32_t next = 0;
  for (const auto& [from, to] : ranges) {
    if (from > next) out.emplace_back(next, from - 1);
    next = std::max(next, to + 1);
  }
  if (next <= kLast) out.emplace_back(next, kLast);
  return out;
}

const Ranges kDigit = {{'0', '9'}};
const Ranges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                       {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                       {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

// A class of characters as a JSON text writes them: some only behind a backslash.
std::string in_json(const Ranges& given) {
  const Ranges excluded = complement(given);
  const auto has = [&](uint32_t code) {
    return std::none_of(excluded.begin(), excluded.end(),
                        [&](const auto& r) { return r.first <= code && code <= r.second; });
  };
  Ranges plain = excluded;
  plain.insert(plain.end(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}});
  plain = complement(plain);
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " | ") + part; };
  if (!plain.empty()) add(gbnf_class(plain));
  struct Escape {
    uint32_t code;
    const char* written;
  };
  for (const Escape& escape : {Escape{'"', "\\\""},
                               {'\\', "\\\\"},
                               {'\n', "\\n"},
                               {'\t', "\\t"},
                               {'\r', "\\r"},
                               {'\b', "\\b"},
                               {'\f', "\\f"}})
    if (has(escape.code)) add(gbnf_text(escape.written));
  // The other control characters have long names; they are left to classes that have nothing else.
  if (out.empty())
    for (uint32_t code = 0; code < 0x20; ++code)
      if (has(code))
        add(concat("\"\\\\u00", code >> 4, "\" [", "0123456789abcdef"[code & 15], "]"));
  return out.empty() ? out : concat("(", out, ")");
}

class Parser {
 public:
  Parser(std::string_view pattern, const std::string& any, std::string_view where)
      : text_(pattern), any_(any), where_(where) {}

  std::string parse() {
    std::string out = choice(true);
    expect(at_end(), "an unmatched )");
    return out;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  template <class... Parts>
  void expect(bool ok, const Parts&... parts) const {
    if (!ok) fail(where_, ": the pattern has ", parts..., ", at byte ", at_);
  }

  std::string choice(bool outermost) {
    expect(++depth_ <= kMaxDepth, "too many levels");
    std::string out = sequence(outermost);
    while (take("|")) out += " | " + sequence(outermost);
    --depth_;
    return concat("(", out, ")");
  }

  // An alternative of the whole pattern may be found anywhere in the text, unless it is anchored.
  std::string sequence(bool outermost) {
    std::string out;
    if (outermost && !take("^")) out = any_ + "* ";
    bool anchored = false;
    while (!at_end() && peek() != '|' && peek() != ')') {
      expect(!anchored, "$ before the end, which is not supported");
      if (outermost && take("$")) {
        anchored = true;
        continue;
      }
      out += item();
      out += quantifier() + " ";
    }
    if (outermost && !anchored) out += any_ + "*";
    return out.empty() ? "\"\"" : out;
  }

  std::string item() {
    const char c = peek();
    if (take("(")) {
      expect(!take("?") || take(":"), "a group of a kind that is not supported (only (?: is)");
      std::string out = choice(false);
      expect(take(")"), "an unmatched (");
      return out;
    }
    if (take("[")) {
      std::string out = in_json(bracket());
      expect(!out.empty(), "an empty class");
      return out;
    }
    if (take(".")) return in_json(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    expect(c != '^' && c != '$', "an anchor inside, which is not supported");
    expect(c != '*' && c != '+' && c != '?' && c != '{', "nothing to repeat");
    return in_json(single());
  }

  uint32_t code() {
    const CodePoint point = decode_utf8(text_.substr(at_));
    expect(point.code != kInvalidUtf8, "bytes that are not UTF-8");
    at_ += static_cast<size_t>(point.length);
    return point.code;
  }

  uint32_t hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = peek();
      const bool digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'f';
      expect(digit || letter, "an escape without its hexadecimal digits");
      value = value << 4 | static_cast<uint32_t>(digit ? c - '0' : (c | 32) - 'a' + 10);
      ++at_;
    }
    return value;
  }

  // One character, or an escape that stands for a class.
  Ranges single() {
    const uint32_t first = code();
    if (first != '\\') return {{first, first}};
    expect(!at_end(), "a backslash at its end");
    const char c = text_[at_];
    const auto just = [](uint32_t code) { return Ranges{{code, code}}; };
    const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    if (!letter && !(c >= '0' && c <= '9')) return just(code());
    ++at_;
    switch (c) {
      case 'd':
        return kDigit;
      case 'D':
        return complement(kDigit);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      case 'n':
        return just('\n');
      case 't':
        return just('\t');
      case 'r':
        return just('\r');
      case 'f':
        return just('\f');
      case 'v':
        return just('\v');
      case 'x':
        return just(hex(2));
      case 'u':
        return just(hex(4));
      default:
        break;
    }
    expect(false, "the escape \\", c, ", which is not supported");
    return {};
  }

  Ranges bracket() {
    const bool negated = take("^");
    Ranges out;
    while (!take("]")) {
      expect(!at_end(), "an unmatched [");
      Ranges from = single();
      if (peek() == '-' && text_.substr(at_ + 1, 1) != "]" && from.size() == 1 &&
          from[0].first == from[0].second) {
        ++at_;
        expect(!at_end(), "an unmatched [");
        const Ranges to = single();
        expect(to.size() == 1 && to[0].first == to[0].second && from[0].first <= to[0].first,
               "a range that does not rise");
        from[0].second = to[0].first;
      }
      out.insert(out.end(), from.begin(), from.end());
    }
    return negated ? complement(out) : out;
  }

  std::string quantifier() {
    std::string out;
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      out = text_[at_++];
    } else if (peek() == '{') {
      const size_t end = text_.find('}', at_);
      expect(end != std::string_view::npos, "an unmatched {");
      out = text_.substr(at_, end - at_ + 1);
      expect(out.find_first_not_of("{}0123456789,") == std::string::npos, "the quantifier ", out);
      at_ = end + 1;
    }
    expect(out.empty() || (peek() != '?' && peek() != '+' && peek() != '*'),
           "a lazy or possessive quantifier, which is not supported");
    return out;
  }

  std::string_view text_;
  const std::string& any_;
  std::string_view where_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string gbnf_pattern(std::string_view pattern, const std::string& any, std::string_view where) {
  return Parser(pattern, any, where).parse();
}

}  // namespace tensora::llm
