#include "tensora/llm/grammar/json_schema_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

std::string hex(uint32_t value, int digits) {
  std::string out;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789ABCDEF"[value >> shift & 15];
  return out;
}

std::string digits(char from, char to) {
  if (from == to) return concat("\"", from, "\"");
  return concat("[", from, "-", to, "]");
}

std::string any_digits(size_t count) { return count == 0 ? "" : concat(" [0-9]{", count, "}"); }

// Numbers of equally many digits.
std::string between(std::string_view least, std::string_view most) {
  if (least == most) return gbnf_text(least);
  if (least[0] == most[0])
    return concat("\"", least[0], "\" ", between(least.substr(1), most.substr(1)));
  const size_t rest = least.size() - 1;
  const std::string zeros(rest, '0'), nines(rest, '9');
  char from = least[0], to = most[0];
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " | ") + part; };
  if (least.substr(1) != zeros) {
    add(concat("\"", from, "\" ", between(least.substr(1), nines)));
    ++from;
  }
  const bool all_of_last = most.substr(1) == nines;
  if (!all_of_last) --to;
  if (from <= to) add(digits(from, to) + any_digits(rest));
  if (!all_of_last) add(concat("\"", most[0], "\" ", between(zeros, most.substr(1))));
  return concat("(", out, ")");
}

constexpr size_t kDigits = 18;

}  // namespace

std::string gbnf_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7F)
      out += "\\x" + hex(byte, 2);
    else
      out += c;
  }
  return out + "\"";
}

std::string gbnf_class(const std::vector<std::pair<uint32_t, uint32_t>>& ranges) {
  const auto one = [](uint32_t code) {
    const bool plain = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
                       (code >= 'a' && code <= 'z');
    if (plain) return std::string(1, static_cast<char>(code));
    return code < 0x80 ? "\\x" + hex(code, 2) : "\\U" + hex(code, 8);
  };
  std::string out = "[";
  for (const auto& [from, to] : ranges) out += from == to ? one(from) : one(from) + "-" + one(to);
  return out + "]";
}

std::string gbnf_class_except(const std::vector<std::pair<uint32_t, uint32_t>>& ranges) {
  return "[^" + gbnf_class(ranges).substr(1);
}

std::string gbnf_natural(int64_t least, std::optional<int64_t> most) {
  std::string out;
  const std::string from = std::to_string(least);
  const std::string to = most ? std::to_string(*most) : std::string(kDigits, '9');
  for (size_t length = from.size(); length <= to.size(); ++length) {
    // All longer numbers at once.
    if (length > from.size() && !most) {
      out += concat(" | [1-9] [0-9]{", length - 1, ",", kDigits - 1, "}");
      break;
    }
    std::string first = "1" + std::string(length - 1, '0'), last(length, '9');
    if (length == from.size()) first = from;
    if (length == to.size()) last = to;
    out += (out.empty() ? "" : " | ") + between(first, last);
  }
  return out;
}

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

std::string gbnf_integer(std::optional<int64_t> least, std::optional<int64_t> most) {
  constexpr int64_t kLimit = 1'000'000'000'000'000'000 - 1;
  for (const auto& bound : {least, most})
    check(!bound || (*bound >= -kLimit && *bound <= kLimit),
          "json schema: expected bounds of up to 18 digits, got ", bound.value_or(0));
  check(!least || !most || *least <= *most, "json schema: expected minimum <= maximum, got ",
        least.value_or(0), " and ", most.value_or(0));
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " | ") + part; };
  if (!least || *least < 0) {
    std::optional<int64_t> farthest;
    if (least) farthest = -*least;
    const int64_t nearest = most && *most < 0 ? -*most : 1;
    add(concat("\"-\" (", gbnf_natural(nearest, farthest), ")"));
  }
  if (!most || *most >= 0) add(gbnf_natural(least ? std::max<int64_t>(*least, 0) : 0, most));
  return concat("(", out, ")");
}

}  // namespace tensora::llm
