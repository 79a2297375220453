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
bool compared(Evaluator&, const Value& value, const Arguments& given) {
  static constexpr char sign[] = {first, second, 0};
  return compares(sign, value, other(given));
}

using Args = Arguments;
using Table = std::unordered_map<std::string_view, Test>;

bool is_iterable(const Value& v) {
  return v.is_sequence() || v.is_text() || v.is_dict() || v.is_undefined();
}

// Tests that look at the kind of a value only.
template <auto is>
const Test kind_test = {[](Evaluator&, const Value& v) { return is(v); }, Cost::constant};

const Table& table() {
  static const Table all = {
      {"defined", kind_test<[](const Value& v) { return !v.is_undefined(); }>},
      {"undefined", kind_test<[](const Value& v) { return v.is_undefined(); }>},
      {"none", kind_test<[](const Value& v) { return v.is_none(); }>},
      {"boolean", kind_test<[](const Value& v) { return v.is(Value::Kind::boolean); }>},
      {"true", kind_test<[](const Value& v) { return v.is(Value::Kind::boolean) && v.truthy(); }>},
      {"false",
       kind_test<[](const Value& v) { return v.is(Value::Kind::boolean) && !v.truthy(); }>},
      {"integer", kind_test<[](const Value& v) { return v.is(Value::Kind::integer); }>},
      {"float", kind_test<[](const Value& v) { return v.is(Value::Kind::real); }>},
      {"number", kind_test<[](const Value& v) { return v.is_number(); }>},
      {"string", kind_test<[](const Value& v) { return v.is_text(); }>},
      {"mapping", kind_test<[](const Value& v) { return v.is_dict(); }>},
      {"sequence", kind_test<is_iterable>},
      {"iterable", kind_test<is_iterable>},
      {"callable", kind_test<[](const Value& v) {
         return v.is(Value::Kind::function) || v.is_undefined();  // calling it raises Jinja's error
       }>},
      {"escaped", kind_test<[](const Value&) { return false; }>},
      {"odd", [](Evaluator& e, const Value& v) { return rest(e, v, 2) == Value(1); }},
      {"even", [](Evaluator& e, const Value& v) { return rest(e, v, 2) == Value(0); }},
      {"divisibleby", [](Evaluator& e, const Value& v,
                         const Args& given) { return rest(e, v, other(given)) == Value(0); }},
      {"lower",
       [](Evaluator&, const Value& v) {
         const std::string text = v.to_text();
         return to_lower(text) == text && to_upper(text) != text;
       }},
      {"upper",
       [](Evaluator&, const Value& v) {
         const std::string text = v.to_text();
         return to_upper(text) == text && to_lower(text) != text;
       }},
      {"sameas",
       [](Evaluator&, const Value& v, const Args& given) {
         return v.kind() == other(given).kind() && v == other(given);
       }},
      {"filter",
       [](Evaluator&, const Value& v) {
         check_key(v);
         return v.is_text() && (find_filter(v.text()) || find_list_filter(v.text()));
       }},
      {"test",
       [](Evaluator&, const Value& v) {
         check_key(v);
         return v.is_text() && find_test(v.text());
       }},
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

const Test* find_test(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace tensora::llm::jinja
