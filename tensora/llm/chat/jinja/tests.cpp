#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

const Value& other(const Arguments& given) { return Bound(given, {"other"}, "test").required(0); }

template <char first, char second = 0>
bool compared(Evaluator& evaluator, const Value& value, const Arguments& given) {
  static constexpr char sign[] = {first, second, 0};
  return compares(evaluator, sign, value, other(given));
}

using Args = Arguments;
using Table = std::unordered_map<std::string_view, Test>;

const Table& table() {
  static const Table all = {
      {"defined", [](Evaluator&, const Value& v, const Args&) { return !v.is_undefined(); }},
      {"undefined", [](Evaluator&, const Value& v, const Args&) { return v.is_undefined(); }},
      {"none", [](Evaluator&, const Value& v, const Args&) { return v.is_none(); }},
      {"boolean",
       [](Evaluator&, const Value& v, const Args&) { return v.is(Value::Kind::boolean); }},
      {"true", [](Evaluator&, const Value& v,
                  const Args&) { return v.is(Value::Kind::boolean) && v.truthy(); }},
      {"false", [](Evaluator&, const Value& v,
                   const Args&) { return v.is(Value::Kind::boolean) && !v.truthy(); }},
      {"integer",
       [](Evaluator&, const Value& v, const Args&) { return v.is(Value::Kind::integer); }},
      {"float", [](Evaluator&, const Value& v, const Args&) { return v.is(Value::Kind::real); }},
      {"number", [](Evaluator&, const Value& v, const Args&) { return v.is_number(); }},
      {"string", [](Evaluator&, const Value& v, const Args&) { return v.is_text(); }},
      {"mapping", [](Evaluator&, const Value& v, const Args&) { return v.is_dict(); }},
      {"sequence",
       [](Evaluator&, const Value& v, const Args&) {
         return v.is_sequence() || v.is_text() || v.is_dict() || v.is_undefined();
       }},
      {"iterable",
       [](Evaluator&, const Value& v, const Args&) {
         return v.is_sequence() || v.is_text() || v.is_dict() || v.is_undefined();
       }},
      {"callable",
       [](Evaluator&, const Value& v, const Args&) { return v.is(Value::Kind::function); }},
      {"odd", [](Evaluator&, const Value& v, const Args&) { return v.integer() % 2 != 0; }},
      {"even", [](Evaluator&, const Value& v, const Args&) { return v.integer() % 2 == 0; }},
      {"divisibleby",
       [](Evaluator&, const Value& v, const Args& given) {
         const int64_t by = other(given).integer();
         check(by != 0, "divisibleby: division by zero");
         return by == -1 || v.integer() % by == 0;
       }},
      {"lower",
       [](Evaluator&, const Value& v, const Args&) {
         return to_lower(v.to_text()) == v.to_text() && to_upper(v.to_text()) != v.to_text();
       }},
      {"upper",
       [](Evaluator&, const Value& v, const Args&) {
         return to_upper(v.to_text()) == v.to_text() && to_lower(v.to_text()) != v.to_text();
       }},
      {"sameas",
       [](Evaluator&, const Value& v, const Args& given) {
         return v.kind() == other(given).kind() && v == other(given);
       }},
      {"filter",
       [](Evaluator&, const Value& v, const Args&) {
         return v.is_text() && (find_filter(v.text()) || find_list_filter(v.text()));
       }},
      {"test",
       [](Evaluator&, const Value& v, const Args&) { return v.is_text() && find_test(v.text()); }},
      {"escaped", [](Evaluator&, const Value&, const Args&) { return false; }},
      {"in", compared<'i', 'n'>},
      {"==", compared<'=', '='>},
      {"eq", compared<'=', '='>},
      {"equalto", compared<'=', '='>},
      {"!=", compared<'!', '='>},
      {"ne", compared<'!', '='>},
      {">", compared<'>'>},
      {"gt", compared<'>'>},
      {"greaterthan", compared<'>'>},
      {">=", compared<'>', '='>},
      {"ge", compared<'>', '='>},
      {"<", compared<'<'>},
      {"lt", compared<'<'>},
      {"lessthan", compared<'<'>},
      {"<=", compared<'<', '='>},
      {"le", compared<'<', '='>},
  };
  return all;
}

}  // namespace

Test find_test(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace tensora::llm::jinja
