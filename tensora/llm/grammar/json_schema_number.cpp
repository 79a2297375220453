#include <charconv>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/llm/grammar/json_schema_parts.h"

namespace tensora::llm {
namespace {

constexpr int kFraction = 16;  // digits after the point, at most

// The size of a bound: its digits before and after the point, the latter without zeros at the end.
struct Decimal {
  int64_t whole = 0;
  std::string fraction = {};
  bool exclusive = false;

  bool is_zero() const { return whole == 0 && fraction.empty(); }
};

Decimal decimal(const DecimalBound& bound, std::string_view where) {
  const double size = std::abs(bound.value);
  check(size < 1e15, where, ": expected bounds of a number of less than 1e15, got ", bound.value);
  char buffer[400];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, size, std::chars_format::fixed).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t point = std::min(text.find('.'), text.size());
  Decimal out{.exclusive = bound.exclusive};
  std::from_chars(text.data(), text.data() + point, out.whole);
  if (point < text.size()) out.fraction = text.substr(point + 1);
  while (out.fraction.ends_with('0')) out.fraction.pop_back();
  check(out.fraction.size() < kFraction, where, ": expected bounds of a number with fewer than ",
        kFraction, " digits after the point, got ", bound.value);
  return out;
}

// What is left of a bound's fraction where all digits so far are the bound's own.
struct Tight {
  std::string_view digits;
  bool exclusive;

  char digit() const { return digits.empty() ? '0' : digits[0]; }
  Tight next() const { return {digits.empty() ? digits : digits.substr(1), exclusive}; }
};
using Bound = std::optional<Tight>;  // none: any digits may follow

std::string digit_class(char from, char to) {
  return from == to ? concat("\"", from, "\"") : concat("[", from, "-", to, "]");
}

// The rest of a fraction with up to `left` digits between two bounds; `ends`: it may be empty. None
// if there is no such rest.
std::optional<std::string> rest_of(const Bound& least, const Bound& most, int left, bool& ends) {
  ends = !(least && (!least->digits.empty() || least->exclusive)) &&
         !(most && most->digits.empty() && most->exclusive);
  if (left == 0) return ends ? std::optional<std::string>("") : std::nullopt;
  if (!least && !most) return concat("[0-9]{1,", left, "}");
  const char low = least ? least->digit() : '0', high = most ? most->digit() : '9';
  std::string out;
  const auto add = [&](char from, char to, const Bound& below, const Bound& above) {
    if (from > to) return;
    bool may_end = false;
    const auto rest = rest_of(below, above, left - 1, may_end);
    if (!rest) return;
    out += concat(out.empty() ? "" : " | ", digit_class(from, to));
    if (!rest->empty()) out += may_end ? concat(" (", *rest, ")?") : concat(" (", *rest, ")");
  };
  const Bound below = least ? Bound(least->next()) : Bound();
  const Bound above = most ? Bound(most->next()) : Bound();
  if (least && most && low == high) {
    add(low, high, below, above);
  } else if (low <= high) {
    if (least) add(low, low, below, {});
    add(static_cast<char>(low + (least ? 1 : 0)), static_cast<char>(high - (most ? 1 : 0)), {}, {});
    if (most) add(high, high, {}, above);
  }
  return out.empty() && !ends ? std::nullopt : std::optional(out);
}

// One whole part, or a choice of them, and the fractions that may follow.
std::optional<std::string> with_fraction(const std::string& whole, const Bound& least,
                                         const Bound& most) {
  bool ends = false;
  const auto rest = rest_of(least, most, kFraction, ends);
  if (!rest) return std::nullopt;
  if (rest->empty()) return whole;
  return concat("(", whole, ") (\".\" (", *rest, "))", ends ? "?" : "");
}

// Sizes from `least` up to `most`, or any; "" if there are none.
std::string sizes(const Decimal& least, const std::optional<Decimal>& most) {
  std::string out;
  const auto add = [&](const std::optional<std::string>& part) {
    if (part) out += concat(out.empty() ? "" : " | ", *part);
  };
  const Bound below = Tight{least.fraction, least.exclusive};
  const Bound above = most ? Bound(Tight{most->fraction, most->exclusive}) : Bound();
  const auto text = [](int64_t whole) { return concat("\"", whole, "\""); };
  if (most && (most->whole < least.whole)) return "";
  if (most && most->whole == least.whole) {
    if (least.fraction > most->fraction) return "";
    add(with_fraction(text(least.whole), below, above));
    return out;
  }
  add(with_fraction(text(least.whole), below, {}));
  if (!most || most->whole - least.whole > 1)
    add(with_fraction(
        gbnf_natural(least.whole + 1, most ? std::optional(most->whole - 1) : std::nullopt), {},
        {}));
  if (most) add(with_fraction(text(most->whole), {}, above));
  return out;
}

}  // namespace

std::string gbnf_number(const std::optional<DecimalBound>& least,
                        const std::optional<DecimalBound>& most, std::string_view where) {
  const auto low = least ? std::optional(decimal(*least, where)) : std::nullopt;
  const auto high = most ? std::optional(decimal(*most, where)) : std::nullopt;
  const bool low_negative = !least || (least->value < 0 && !low->is_zero());
  const bool high_negative = most && most->value < 0 && !high->is_zero();
  std::string out;
  if (low_negative) {
    // Sizes of negative numbers; -0 is one of them where 0 is allowed.
    Decimal nearest;
    if (high_negative || (high && high->is_zero())) nearest = *high;
    const std::string part = sizes(nearest, low);
    if (!part.empty()) out = concat("\"-\" (", part, ")");
  }
  if (!high_negative) {
    const Decimal nearest = low && !low_negative ? *low : Decimal{};
    const std::string part = sizes(nearest, high);
    if (!part.empty()) out += concat(out.empty() ? "" : " | ", part);
  }
  return out.empty() ? out : concat("(", out, ")");
}

}  // namespace tensora::llm
