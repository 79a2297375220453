#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

const Value& other(const Arguments& given) { return Bound(given, {"other"}, "test").required(0); }

Value rest(Evaluator& evaluator, const Value& value, const Value& by) {
  check(value.is_number(), "expected a number, got a ", value.type_name());
  return arithmetic(evaluator, "%", value, by);
}

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
      {"odd", [](Evaluator& e, const Value& v, const Args&) { return rest(e, v, 2) == Value(1); }},
      {"even", [](Evaluator& e, const Value& v, const Args&) { return rest(e, v, 2) == Value(0); }},
      {"divisibleby", [](Evaluator& e, const Value& v,
                         const Args& given) { return rest(e, v, other(given)) == Value(0); }},
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
