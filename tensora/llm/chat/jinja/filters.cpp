#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

using Args = Arguments;

Value tojson(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"ensure_ascii", "indent", "separators", "sort_keys"}, "tojson");
  JsonOptions options{.ensure_ascii = bound.flag(0, false), .sort_keys = bound.flag(3, false)};
  if (const Value* indent = bound.find(1); indent && !indent->is_none()) {
    check(indent->is_text() || (indent->integer() >= 0 && indent->integer() <= 64),
          "tojson: expected indent to be a text or a number up to 64, got ", indent->to_source());
    options.indent = indent->is_text() ? indent->text()
                                       : std::string(static_cast<size_t>(indent->integer()), ' ');
    options.item_separator = ",";
  }
  if (const Value* separators = bound.find(2); separators && !separators->is_none()) {
    check(separators->is_sequence() && separators->items().size() == 2,
          "tojson: expected separators to be two texts");
    options.item_separator = separators->items()[0].text();
    options.key_separator = separators->items()[1].text();
  }
  return evaluator.made(to_json(value, options));
}

Value indent(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"width", "first", "blank"}, "indent");
  std::string by(4, ' ');
  if (const Value* width = bound.find(0)) {
    check(width->is_text() || (width->integer() >= 0 && width->integer() <= 10'000),
          "indent: expected a width up to 10000");
    by = width->is_text() ? width->text() : std::string(static_cast<size_t>(width->integer()), ' ');
  }
  std::string out;
  bool first = true;
  std::string_view rest = value.text();
  for (;;) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (!first) out += '\n';
    if (first ? bound.flag(1, false) : !line.empty() || bound.flag(2, false))
      evaluator.append(out, by);
    out += line;
    first = false;
    if (end == std::string_view::npos) return evaluator.made(std::move(out));
    rest.remove_prefix(end + 1);
  }
}

Value escape(Evaluator& evaluator, const Value& value) {
  std::string out;
  for (const char c : value.to_text()) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return evaluator.made(std::move(out));
}

Value to_int(Evaluator&, const Value& value, const Args& given) {
  const Bound bound(given, {"default", "base"}, "int");
  const Value fallback = bound.find(0) ? *bound.find(0) : Value(0);
  check(!value.is_undefined(), value.undefined_name(), " is undefined");
  if (value.is(Value::Kind::real))
    return std::abs(value.real()) < 9e18 ? Value(static_cast<int64_t>(value.real())) : fallback;
  if (value.is_integral()) return value.integer();
  if (!value.is_text()) return fallback;
  const int64_t base = bound.integer(1, 10);
  check(base >= 2 && base <= 36, "int: expected a base from 2 to 36, got ", base);
  if (const auto whole = parse_integer(value.text(), static_cast<int>(base))) return *whole;
  const auto real = parse_real(value.text());
  return real && std::abs(*real) < 9e18 ? Value(static_cast<int64_t>(*real)) : fallback;
}

Value to_float(Evaluator&, const Value& value, const Args& given) {
  const Bound bound(given, {"default"}, "float");
  check(!value.is_undefined(), value.undefined_name(), " is undefined");
  if (value.is_number()) return value.real();
  const auto real = value.is_text() ? parse_real(value.text()) : std::nullopt;
  return real ? Value(*real) : bound.find(0) ? *bound.find(0) : Value(0.0);
}

// To a multiple of a power of ten; halves go to the even multiple, as in Python.
int64_t rounded_integer(int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return 0;  // half of 10^19 exceeds any int64
  int64_t unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  const int64_t rest = value % unit, whole = value - rest, half = unit / 2;
  const bool odd = whole / unit % 2 != 0;
  if (std::abs(rest) < half || (std::abs(rest) == half && !odd)) return whole;
  int64_t result = 0;
  check(!__builtin_add_overflow(whole, rest < 0 ? -unit : unit, &result), "round: the number ",
        value, " has no ", -precision, " digits to round");
  return result;
}

Value round(Evaluator&, const Value& value, const Args& given) {
  const Bound bound(given, {"precision", "method"}, "round");
  const int64_t precision = bound.integer(0, 0);
  check(precision >= -300 && precision <= 300, "round: expected a precision up to 300");
  const std::string method = bound.text(1, "common");
  check(method == "common" || method == "ceil" || method == "floor",
        "round: expected common, ceil or floor, got ", method);
  if (method == "common" && value.is_integral()) return rounded_integer(value.integer(), precision);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.real() * scale;
  // As Python, halves go to the even neighbour.
  const double whole = method == "ceil"    ? std::ceil(scaled)
                       : method == "floor" ? std::floor(scaled)
                                           : std::nearbyint(scaled);
  return whole / scale;
}

Value default_value(Evaluator&, const Value& value, const Args& given) {
  const Bound bound(given, {"default_value", "boolean"}, "default");
  const bool missing = value.is_undefined() || (bound.flag(1, false) && !value.truthy());
  if (!missing) return value;
  return bound.find(0) ? *bound.find(0) : Value("");
}

Value truncate(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"length", "killwords", "end", "leeway"}, "truncate");
  const std::string end = bound.text(2, "...");
  const int64_t letters = evaluator.apply_filter("length", value, {}).integer();
  const int64_t length = bound.integer(0, 255), leeway = bound.integer(3, 5);
  const auto tail = static_cast<int64_t>(code_points(end));
  check(length >= tail && leeway >= 0, "truncate: expected a length of at least that of the end");
  // Not length + leeway, which may overflow.
  if (letters <= length || letters - length <= leeway) return value;
  check(value.is_text(), "truncate: expected a text, got a ", value.type_name(), " of ", letters,
        " items");
  const std::string& text = value.text();
  std::string out = text.substr(0, bytes_of(text, length - tail));
  if (!bound.flag(1, false)) out = out.substr(0, out.rfind(' '));
  return evaluator.made(out + end);
}

Value trim(Evaluator& evaluator, const Value& value, const Args& given) {
  const Bound bound(given, {"chars"}, "trim");
  StripOptions options;
  if (bound.find(0) && !bound.find(0)->is_none()) options.letters = bound.find(0)->text();
  return evaluator.made(std::string(strip(value.to_text(), options)));
}

Value wordcount(Evaluator&, const Value& value) {
  const std::string text = value.to_text();
  int64_t count = 0;
  bool inside = false;
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint letter = decode_utf8(rest);
    const bool word = is_letter(letter.code) || is_numeral(letter.code) || letter.code == '_';
    count += static_cast<int64_t>(word && !inside);
    inside = word;
    rest.remove_prefix(static_cast<size_t>(letter.length));
  }
  return count;
}

Value text(Evaluator& evaluator, const Value& value) {
  return value.is_text() ? value : evaluator.made(value.to_text());
}

const std::unordered_map<std::string_view, Filter>& table() {
  static const std::unordered_map<std::string_view, Filter> all = {
      {"tojson", tojson},
      {"indent", indent},
      {"e", escape},
      {"escape", escape},
      {"int", to_int},
      {"float", to_float},
      {"round", round},
      {"d", {default_value, Cost::constant}},
      {"default", {default_value, Cost::constant}},
      {"truncate", truncate},
      {"trim", trim},
      {"wordcount", wordcount},
      {"string", text},
      {"safe", text},
      {"upper",
       [](Evaluator& e, const Value& v) -> Value { return e.made(to_upper(v.to_text())); }},
      {"lower",
       [](Evaluator& e, const Value& v) -> Value { return e.made(to_lower(v.to_text())); }},
      {"title",
       [](Evaluator& e, const Value& v) -> Value { return e.made(to_words(v.to_text())); }},
      {"capitalize",
       [](Evaluator& e, const Value& v) -> Value { return e.made(to_capitalized(v.to_text())); }},
      {"abs",
       [](Evaluator& e, const Value& v) -> Value {
         if (v.is(Value::Kind::real)) return std::abs(v.real());
         return v.integer() < 0 ? arithmetic(e, "-", 0, v) : Value(v.integer());
       }},
      {"replace",
       [](Evaluator& e, const Value& v, const Args& given) -> Value {
         const Bound bound(given, {"old", "new", "count"}, "replace");
         return e.made(
             replaced(v.to_text(), bound.required(0).to_text(), bound.required(1).to_text(),
                      bound.find(2) && !bound.find(2)->is_none() ? bound.integer(2, -1) : -1));
       }},
      {"format",
       [](Evaluator& e, const Value& v, const Args& given) -> Value {
         if (given.named.empty())
           return percent_format(e, v.to_text(), Value::tuple(given.positional));
         check(given.positional.empty(), "format: expected values with or without names, not both");
         Dict named;
         for (const auto& [name, value] : given.named) named.set(name, value);
         return percent_format(e, v.to_text(), Value::dict(std::move(named)));
       }},
      {"center",
       [](Evaluator& e, const Value& v, const Args& given) -> Value {
         const Value width = Bound(given, {"width"}, "center").integer(0, 80);
         const Value text = v.to_text();
         return (*find_method(text, "center"))(e, text, {.positional = {width}});
       }},
  };
  return all;
}

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace tensora::llm::jinja
