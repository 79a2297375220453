#include <algorithm>
#include <ctime>
#include <utility>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/evaluator.h"

namespace tensora::llm::jinja {
namespace {

Value range(Evaluator&, const Arguments& given) {
  check(!given.positional.empty() && given.positional.size() <= 3 && given.named.empty(),
        "range: expected one to three numbers");
  const auto at = [&](size_t i) { return given.positional[i].integer(); };
  const size_t count = given.positional.size();
  const int64_t from = count > 1 ? at(0) : 0, to = count > 1 ? at(1) : at(0);
  const int64_t by = count > 2 ? at(2) : 1;
  check(by != 0, "range: the step must not be 0");
  // As the sandbox of Jinja, which allows 100,000 numbers.
  constexpr int64_t kMost = 100'000;
  List out;
  for (int64_t i = from; by > 0 ? i < to : i > to;) {
    check(std::ssize(out) < kMost, "range: expected at most ", kMost, " numbers");
    out.emplace_back(i);
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return Value::list(std::move(out));
}

Dict named(const Arguments& given, std::string_view function) {
  Dict out;
  check(given.positional.size() <= 1, function, ": expected at most one value without a name");
  for (const Value& value : given.positional) {
    if (value.is_dict()) {
      out = value.pairs();
      continue;
    }
    for (const Value& pair : value.items()) {
      check(pair.is_sequence() && pair.items().size() == 2, function, ": expected pairs");
      out.set(pair.items()[0], pair.items()[1]);
    }
  }
  for (const auto& [key, value] : given.named) out.set(key, value);
  return out;
}

Value strftime_now(Evaluator& evaluator, const Arguments& given) {
  const std::string format = Bound(given, {"format"}, "strftime_now").required(0).text();
  check(format.size() <= 200, "strftime_now: the format is too long");
  const std::time_t now = evaluator.now();
  std::tm local = {};
  localtime_r(&now, &local);
  std::string out(format.size() * 64 + 64, '\0');
  // A letter behind, so that an empty result is told from one that does not fit.
  out.resize(std::strftime(out.data(), out.size(), (format + ".").c_str(), &local));
  check(!out.empty(), "strftime_now: the date is too long");
  out.pop_back();
  return out;
}

Value joiner(Evaluator&, const Arguments& given) {
  const std::string separator = Bound(given, {"sep"}, "joiner").text(0, ", ");
  const auto used = std::make_shared<bool>(false);
  return Value::function("joiner", [separator, used](Evaluator&, const Arguments& none) {
    check_none(none);
    return Value(std::exchange(*used, true) ? separator : std::string());
  });
}

Value cycler(Evaluator&, const Arguments& given) {
  check(!given.positional.empty() && given.named.empty(), "cycler: expected values without names");
  const auto place = std::make_shared<size_t>(0);
  const List values = given.positional;
  Dict fields;
  fields.set("next", Value::function("next", [values, place](Evaluator&, const Arguments& none) {
               check_none(none);
               const Value out = values[*place];
               *place = (*place + 1) % values.size();
               return out;
             }));
  fields.set("reset", Value::function("reset", [place](Evaluator&, const Arguments& none) {
               check_none(none);
               *place = 0;
               return Value::none();
             }));
  return Value::function(
             "cycler",
             [](Evaluator&, const Arguments&) -> Value { fail("a cycler cannot be called"); },
             std::move(fields))
      .holding(Value::list(values));
}

Dict make_globals() {
  Dict out;
  const auto add = [&](const char* name, Function function) {
    out.set(name, Value::function(name, std::move(function)));
  };
  add("range", range);
  add("strftime_now", strftime_now);
  add("joiner", joiner);
  add("cycler", cycler);
  add("dict", [](Evaluator&, const Arguments& given) { return Value::dict(named(given, "dict")); });
  add("namespace",
      [](Evaluator& e, const Arguments& given) { return e.make_space(named(given, "namespace")); });
  add("raise_exception", [](Evaluator&, const Arguments& given) -> Value {
    fail(Bound(given, {"message"}, "raise_exception").text(0, ""));
  });
  return out;
}

}  // namespace

const Value* find_global(std::string_view name) {
  static const Dict globals = make_globals();
  return globals.find_text(name);
}

}  // namespace tensora::llm::jinja
