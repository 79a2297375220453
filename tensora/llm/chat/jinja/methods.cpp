#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

using Args = Arguments;
using Table = std::unordered_map<std::string_view, Method>;

template <bool left, bool right>
Value stripped(Evaluator& evaluator, const Value& self, const Args& given) {
  const Bound bound(given, {"chars"}, "strip");
  StripOptions options{.left = left, .right = right};
  if (bound.find(0) && !bound.find(0)->is_none()) options.letters = bound.find(0)->text();
  return evaluator.made(std::string(strip(self.text(), options)));
}

// With a separator, exactly there; without, at runs of blanks.
Value split(Evaluator&, const Value& self, const Args& given) {
  const Bound bound(given, {"sep", "maxsplit"}, "split");
  uint64_t left =
      bound.integer(1, -1) < 0 ? UINT64_MAX : static_cast<uint64_t>(bound.integer(1, -1));
  std::string_view text = self.text();
  List out;
  if (bound.find(0) && !bound.find(0)->is_none()) {
    const std::string& separator = bound.find(0)->text();
    check(!separator.empty(), "split: the separator is empty");
    for (; left > 0; --left) {
      const size_t at = find_first(text, separator);
      if (at == std::string_view::npos) break;
      out.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
    out.emplace_back(text);
    return Value::list(std::move(out));
  }
  for (text = strip(text, {.right = false}); !text.empty(); text = strip(text, {.right = false})) {
    if (left-- == 0) {
      out.emplace_back(strip(text, {.left = false}));
      break;
    }
    size_t length = 0;
    while (length < text.size() && !is_blank(decode_utf8(text.substr(length)).code))
      length += static_cast<size_t>(decode_utf8(text.substr(length)).length);
    out.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return Value::list(std::move(out));
}

Value rsplit(Evaluator& evaluator, const Value& self, const Args& given) {
  const Bound bound(given, {"sep", "maxsplit"}, "rsplit");
  int64_t most = bound.integer(1, -1);
  if (most < 0 || !bound.find(0) || bound.find(0)->is_none()) {
    check(most < 0, "rsplit: maxsplit without a separator is not supported");
    return split(evaluator, self, given);
  }
  const std::string& separator = bound.find(0)->text();
  check(!separator.empty(), "rsplit: the separator is empty");
  std::string_view text = self.text();
  List out;
  for (; most > 0; --most) {
    const size_t at = find_last(text, separator);
    if (at == std::string_view::npos) break;
    out.emplace_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  out.emplace_back(text);
  std::reverse(out.begin(), out.end());
  return Value::list(std::move(out));
}

Value splitlines(Evaluator&, const Value& self, const Args& given) {
  const bool keep = Bound(given, {"keepends"}, "splitlines").flag(0, false);
  std::string_view text = self.text();
  List out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\n\r\v\f\x1C\x1D\x1E"), text.size());
    const size_t next = end == text.size()              ? end
                        : text.substr(end, 2) == "\r\n" ? end + 2
                                                        : end + 1;
    out.emplace_back(text.substr(0, keep ? next : end));
    text.remove_prefix(next);
  }
  return Value::list(std::move(out));
}

template <bool at_end>
Value affix(Evaluator&, const Value& self, const Args& given) {
  const Bound bound(given, {at_end ? "suffix" : "prefix"}, at_end ? "endswith" : "startswith");
  const Value& what = bound.required(0);
  const auto fits = [&](const Value& part) {
    return at_end ? self.text().ends_with(part.text()) : self.text().starts_with(part.text());
  };
  if (what.is(Value::Kind::tuple))
    return std::any_of(what.items().begin(), what.items().end(), fits);
  return fits(what);
}

template <bool at_end>
Value without_affix(Evaluator& evaluator, const Value& self, const Args& given) {
  const Bound bound(given, {"affix"}, "removeprefix");
  const std::string& part = bound.required(0).text();
  const std::string& text = self.text();
  const bool fits = at_end ? text.ends_with(part) : text.starts_with(part);
  if (!fits) return self;
  return evaluator.made(text.substr(at_end ? 0 : part.size(), text.size() - part.size()));
}

// Where a text is found, in letters; -1 if it is not.
int64_t found_at(const Value& self, const Args& given, bool from_end) {
  const Bound bound(given, {"sub"}, "find");
  const std::string& what = bound.required(0).text();
  const size_t at = from_end ? find_last(self.text(), what) : find_first(self.text(), what);
  if (at == std::string::npos) return -1;
  return static_cast<int64_t>(code_points(std::string_view(self.text()).substr(0, at)));
}

Value index(Evaluator&, const Value& self, const Args& given) {
  if (self.is_text()) {
    const int64_t at = found_at(self, given, false);
    check(at >= 0, "index: the text is not found");
    return at;
  }
  const List& items = self.items();
  const auto found =
      std::find(items.begin(), items.end(), Bound(given, {"value"}, "index").required(0));
  check(found != items.end(), "index: the value is not in the list");
  return static_cast<int64_t>(found - items.begin());
}

Value count(Evaluator&, const Value& self, const Args& given) {
  const Bound bound(given, {"value"}, "count");
  const Value& what = bound.required(0);
  if (!self.is_text()) {
    const List& items = self.items();
    return static_cast<int64_t>(std::count(items.begin(), items.end(), what));
  }
  if (what.text().empty()) return code_points(self.text()) + 1;
  int64_t out = 0;
  for (size_t at = find_first(self.text(), what.text()); at != std::string::npos;
       at = find_first(self.text(), what.text(), at + what.text().size()))
    ++out;
  return out;
}

// str.format with {}, {0} and {name}, without attributes and formats.
Value format(Evaluator& evaluator, const Value& self, const Args& given) {
  const std::string& text = self.text();
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == c) {
      out += c;
      ++i;
      continue;
    }
    const size_t close = text.find('}', i);
    check(c == '{' && close != std::string::npos, "format: a single brace");
    const std::string field = text.substr(i + 1, close - i - 1);
    check(field.find_first_of(".[:!{") == std::string::npos, "format: the field {", field,
          "} is not supported");
    i = close;
    const auto number =
        field.empty() ? std::optional(static_cast<int64_t>(next++)) : parse_integer(field);
    if (number) {
      check(*number >= 0 && *number < std::ssize(given.positional), "format: too few values");
      evaluator.append_value(out, given.positional[static_cast<size_t>(*number)]);
      continue;
    }
    charge(std::ssize(given.named) / 16);
    const auto found = std::find_if(given.named.begin(), given.named.end(),
                                    [&](const auto& pair) { return pair.first == field; });
    check(found != given.named.end(), "format: there is no value named ", field);
    evaluator.append_value(out, found->second);
  }
  return evaluator.made(std::move(out));
}

// Whether all characters are of a kind, and there is one.
template <class Is>
bool all_letters(const Value& self, const Is& is) {
  std::string_view rest = self.text();
  while (!rest.empty()) {
    const CodePoint letter = decode_utf8(rest);
    if (!is(letter.code)) return false;
    rest.remove_prefix(static_cast<size_t>(letter.length));
  }
  return !self.text().empty();
}

Value padded(Evaluator& evaluator, const Value& self, const Args& given, int side) {
  const Bound bound(given, {"width", "fillchar"}, "ljust");
  const auto size = static_cast<int64_t>(code_points(self.text()));
  const int64_t width = std::max(bound.required(0).integer(), size), room = width - size;
  check(room <= 1'000'000, "expected a width up to a million");
  const std::string fill = bound.text(1, " ");
  check(code_points(fill) == 1, "expected one character to fill with, got ", code_points(fill));
  const int64_t left = side < 0 ? 0 : side > 0 ? room : room / 2 + (room & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (int64_t i = left; i < room; ++i) out += fill;
  return evaluator.made(std::move(out));
}

Value join(Evaluator& evaluator, const Value& self, const Args& given) {
  std::string out;
  bool first = true;
  for (const Value& item : evaluator.iterate(Bound(given, {"iterable"}, "join").required(0))) {
    if (!std::exchange(first, false)) evaluator.append(out, self.text());
    evaluator.append(out, item.text());
  }
  return out;
}

const Table& text_methods() {
  static const Table all = {
      {"strip", stripped<true, true>},
      {"lstrip", stripped<true, false>},
      {"rstrip", stripped<false, true>},
      {"split", split},
      {"rsplit", rsplit},
      {"splitlines", splitlines},
      {"startswith", {affix<false>, Cost::constant}},
      {"endswith", {affix<true>, Cost::constant}},
      {"removeprefix", without_affix<false>},
      {"removesuffix", without_affix<true>},
      {"index", index},
      {"count", count},
      {"format", format},
      {"join", join},
      {"find",
       [](Evaluator&, const Value& s, const Args& a) -> Value { return found_at(s, a, false); }},
      {"rfind",
       [](Evaluator&, const Value& s, const Args& a) -> Value { return found_at(s, a, true); }},
      {"upper", [](Evaluator& e, const Value& s) -> Value { return e.made(to_upper(s.text())); }},
      {"lower", [](Evaluator& e, const Value& s) -> Value { return e.made(to_lower(s.text())); }},
      {"title", [](Evaluator& e, const Value& s) -> Value { return e.made(to_title(s.text())); }},
      {"capitalize",
       [](Evaluator& e, const Value& s) -> Value { return e.made(to_capitalized(s.text())); }},
      {"replace",
       [](Evaluator& e, const Value& s, const Args& a) -> Value {
         const Bound bound(a, {"old", "new", "count"}, "replace");
         return e.made(replaced(s.text(), bound.required(0).text(), bound.required(1).text(),
                                bound.integer(2, -1)));
       }},
      {"isdigit", [](Evaluator&, const Value& s) -> Value { return all_letters(s, is_digit); }},
      {"isalpha", [](Evaluator&, const Value& s) -> Value { return all_letters(s, is_letter); }},
      {"isspace", [](Evaluator&, const Value& s) -> Value { return all_letters(s, is_blank); }},
      {"isalnum",
       [](Evaluator&, const Value& s) -> Value {
         return all_letters(s, [](uint32_t c) { return is_letter(c) || is_numeral(c); });
       }},
      {"isupper",
       [](Evaluator&, const Value& s) -> Value {
         return to_upper(s.text()) == s.text() && to_lower(s.text()) != s.text();
       }},
      {"islower",
       [](Evaluator&, const Value& s) -> Value {
         return to_lower(s.text()) == s.text() && to_upper(s.text()) != s.text();
       }},
      {"ljust", [](Evaluator& e, const Value& s, const Args& a) { return padded(e, s, a, -1); }},
      {"rjust", [](Evaluator& e, const Value& s, const Args& a) { return padded(e, s, a, 1); }},
      {"center", [](Evaluator& e, const Value& s, const Args& a) { return padded(e, s, a, 0); }},
  };
  return all;
}

Value dict_items(Evaluator&, const Value& self) {
  List out;
  for (const auto& [key, value] : self.pairs().pairs()) out.push_back(Value::tuple({key, value}));
  return Value::list(std::move(out));
}

Value dict_get(Evaluator&, const Value& self, const Args& given) {
  const Bound bound(given, {"key", "default"}, "get");
  check_key(bound.required(0));
  if (const Value* found = self.pairs().find(bound.required(0))) return *found;
  return bound.find(1) ? *bound.find(1) : Value::none();
}

Value frozen(Evaluator&, const Value& self, const Args&) {
  fail("a ", self.type_name(), " cannot be changed by a template; use + or a namespace");
}

const Table& dict_methods() {
  static const Table all = {
      {"items", {dict_items, Cost::length}},
      {"get", {dict_get, Cost::constant}},
      {"keys",
       {[](Evaluator& e, const Value& s) { return Value::list(e.iterate(s)); }, Cost::length}},
      {"values",
       {[](Evaluator&, const Value& s) {
          List out;
          for (const auto& [key, value] : s.pairs().pairs()) out.push_back(value);
          return Value::list(std::move(out));
        },
        Cost::length}},
      {"copy", {[](Evaluator&, const Value& s) { return s; }, Cost::constant}},
      {"update", frozen},
      {"pop", frozen},
      {"setdefault", frozen},
      {"clear", frozen},
      {"popitem", frozen},
  };
  return all;
}

const Table& tuple_methods() {
  static const Table all = {{"index", index}, {"count", count}};
  return all;
}

const Table& list_methods() {
  static const Table all = {
      {"index", index},
      {"count", count},
      {"append", frozen},
      {"extend", frozen},
      {"insert", frozen},
      {"pop", frozen},
      {"remove", frozen},
      {"reverse", frozen},
      {"sort", frozen},
      {"clear", frozen},
      {"copy", {[](Evaluator&, const Value& s) { return s; }, Cost::constant}},
  };
  return all;
}

}  // namespace

const Method* find_method(const Value& object, std::string_view name) {
  const Table* table = object.is_text()                ? &text_methods()
                       : object.is_dict()              ? &dict_methods()
                       : object.is(Value::Kind::list)  ? &list_methods()
                       : object.is(Value::Kind::tuple) ? &tuple_methods()
                                                       : nullptr;
  if (!table) return nullptr;
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace tensora::llm::jinja
