#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensora/llm/chat/jinja/ast.h"
#include "tensora/llm/chat/jinja/value.h"

namespace tensora::llm::jinja {

struct Limits {
  /// Nodes evaluated, items visited, 16 bytes of text read or made, 48 bytes allocated. A run gets
  /// 32 more for each step that it takes to read its variables, so that long conversations fit.
  int64_t steps = 5'000'000;
  size_t output_bytes = size_t{64} << 20;  // also of any one text
  int depth = 400;                         // of nodes in nodes and calls in calls
};

/// Runs one template once. Knows nothing but what it is given: values, and the functions, filters,
/// tests and methods of the tables.
class Evaluator {
 public:
  Evaluator(const Limits& limits, int64_t now) : limits_(limits), now_(now) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  std::string run(const Body& body, const Dict& variables);

  // For functions, filters, tests and methods.
  /// Throws if a text that was made is too long.
  std::string made(std::string text);
  /// Adds to a text that is being made; throws when that becomes too long.
  void append(std::string& out, std::string_view text);
  void append_value(std::string& out, const Value& value);
  Value call(const Value& callee, const Arguments& arguments);
  Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments);
  bool apply_test(std::string_view name, const Value& value, const Arguments& arguments);
  /// obj.name and obj[key]; undefined if there is no such thing.
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  /// What a loop over the value visits.
  List iterate(const Value& value);
  /// A namespace, which is emptied when the evaluator ends: it may hold itself.
  Value make_space(Dict pairs);
  int64_t now() const { return now_; }  // seconds since 1970

 private:
  enum class Flow : uint8_t { normal, leave, next };
  struct Scope {
    Scope* parent;
    std::vector<std::pair<std::string, Value>> variables = {};
    bool captured = false;  // by a macro, so it lives until the end
  };
  /// Counts nodes within nodes as long as it lives.
  class Level {
   public:
    Level(Evaluator& evaluator, const Place& place);
    ~Level() { --evaluator_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Evaluator& evaluator_;
  };
  class NewScope;

  Flow execute(const Body& body, std::string& out);
  Flow execute(const Statement& statement, std::string& out);
  Flow loop(const Statement& statement, std::string& out, const Value& over, int64_t depth);
  Value loop_variable(const Statement& statement, const List& items, size_t place, int64_t depth,
                      const std::shared_ptr<Value>& last);
  Flow branch(const Statement& statement, std::string& out);
  void with(const Statement& statement, std::string& out);
  Value macro(const Statement& statement, const std::string& name);
  Value call_macro(const Statement& statement, Scope* home, const std::string& name,
                   const Arguments& arguments);
  Value call_block(const Statement& statement);
  std::string captured_text(const Statement& statement);
  void assign(const Expression& target, Value value);

  Value evaluate(const Expression& expression);
  Value compute(const Expression& expression);
  Value lookup(const std::string& name) const;
  Value slice(const Expression& expression);
  Value text_slice(const Value& object, const Value* bounds);
  Value binary(const Expression& expression);
  Value comparison(const Expression& expression);
  Value filtered(const Expression& expression, const Value* body);
  Arguments arguments(const std::vector<Argument>& given);
  void set(const std::string& name, Value value);

  Limits limits_;
  int64_t now_;
  int depth_ = 0;
  Scope* scope_ = nullptr;
  std::vector<std::unique_ptr<Scope>> scopes_;
  List spaces_;
  std::vector<std::shared_ptr<Value>> changed_;  // what calls of loop.changed remember
};

/// Arguments by their names in a signature. Throws for too many, unknown ones, and those given
/// twice.
class Bound {
 public:
  Bound(const Arguments& arguments, std::initializer_list<std::string_view> names,
        std::string_view function);
  /// Null if it was not given.
  const Value* find(size_t i) const { return values_[i]; }
  const Value& required(size_t i) const;
  bool flag(size_t i, bool fallback) const { return values_[i] ? values_[i]->truthy() : fallback; }
  int64_t integer(size_t i, int64_t fallback) const {
    return values_[i] ? values_[i]->integer() : fallback;
  }
  std::string text(size_t i, std::string_view fallback) const {
    return values_[i] ? values_[i]->to_text() : std::string(fallback);
  }

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

/// What a call is charged before it runs.
enum class Cost : uint8_t {
  whole,     // all that the value and the arguments hold
  length,    // their items or bytes, not what the items hold
  constant,  // nothing for the value, and the length of the arguments
};
void charge_call(Cost cost, const Value& value, const Arguments& arguments);
/// Throws if there are any.
void check_none(const Arguments& arguments);

/// A filter, test or method. It can only be run by a call that charges for it, for everything that
/// it is given unless the table says that it looks at less.
template <class Result>
class Native {
 public:
  using Function = Result (*)(Evaluator&, const Value&, const Arguments&);
  using Alone = Result (*)(Evaluator&, const Value&);  // takes no arguments, and refuses them

  template <std::convertible_to<Function> F>
  Native(F function, Cost cost = Cost::whole)  // NOLINT: tables list functions
      : function_(function), cost_(cost) {}
  template <std::convertible_to<Alone> F>
  Native(F function, Cost cost = Cost::whole)
      : alone_(function), cost_(cost) {}  // NOLINT: as above
  Result operator()(Evaluator& evaluator, const Value& value, const Arguments& arguments) const {
    charge_call(cost_, value, arguments);
    if (function_) return function_(evaluator, value, arguments);
    check_none(arguments);
    return alone_(evaluator, value);
  }

 private:
  Function function_ = nullptr;
  Alone alone_ = nullptr;
  Cost cost_;
};

// The tables. Each answers null for a name that it does not have.
using Filter = Native<Value>;
using Test = Native<bool>;
using Method = Native<Value>;
const Filter* find_filter(std::string_view name);
const Filter* find_list_filter(std::string_view name);  // those about lists and dicts
const Test* find_test(std::string_view name);
const Method* find_method(const Value& object, std::string_view name);
const Value* find_global(std::string_view name);

/// a + b, and so on: Python's arithmetic.
Value arithmetic(Evaluator& evaluator, std::string_view sign, const Value& a, const Value& b);
/// a == b, a in b …
bool compares(std::string_view sign, const Value& a, const Value& b);
/// Python's text % values.
std::string percent_format(Evaluator& evaluator, const std::string& format, const Value& values);

}  // namespace tensora::llm::jinja
