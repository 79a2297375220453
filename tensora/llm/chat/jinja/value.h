#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensora/llm/chat/jinja/budget.h"

namespace tensora::llm::jinja {

class Value;
class Evaluator;
struct Arguments;

using List = std::vector<Value, ChargedAllocator<Value>>;
using Function = std::function<Value(Evaluator&, const Arguments&)>;

/// Pairs in the order in which they were added. Copies share them until one of them is written to.
class Dict {
 public:
  using Pair = std::pair<Value, Value>;
  using Pairs = std::vector<Pair, ChargedAllocator<Pair>>;
  const Value* find(const Value& key) const;
  const Value* find_text(std::string_view key) const;
  void set(Value key, Value value);
  void reserve(size_t count);
  const Pairs& pairs() const;
  size_t size() const;

 private:
  struct Table;  // indirect, as Value is not complete here
  void own();    // makes a copy of the table if it is shared
  template <class Key>
  Value* search(const Key& key) const;

  std::shared_ptr<Table> table_;
};

/// A value of a template: what Python would have, as far as templates need it. Lists, dicts and
/// texts are shared, and nothing changes them once they can be seen from two places; only a
/// namespace is written to.
class Value {
 public:
  enum class Kind : uint8_t {
    undefined,
    none,
    boolean,
    integer,
    real,
    text,
    list,
    tuple,
    dict,
    space,
    function
  };
  /// What `undefined` remembers, for messages.
  struct Undefined {
    std::string name;
  };
  struct Callable {
    std::string name;
    Function function;
    Dict attributes = {};  // of a macro: name, arguments …; of a loop: index …
  };

  Value() : data_(std::shared_ptr<const Undefined>()) {}
  static Value undefined(std::string name);
  static Value none();
  static Value list(List items);
  static Value tuple(List items);
  static Value dict(Dict pairs);
  static Value space(Dict pairs);  // namespace()
  static Value function(std::string name, Function function, Dict attributes = {});
  Value(bool value) : kind_(Kind::boolean), data_(value) {}     // NOLINT: values convert
  Value(int64_t value) : kind_(Kind::integer), data_(value) {}  // NOLINT
  Value(int value) : Value(static_cast<int64_t>(value)) {}      // NOLINT
  Value(size_t value) : Value(static_cast<int64_t>(value)) {}   // NOLINT
  Value(double value) : kind_(Kind::real), data_(value) {}      // NOLINT
  Value(std::string value);                                     // NOLINT
  Value(std::string_view value) : Value(std::string(value)) {}  // NOLINT
  Value(const char* value) : Value(std::string(value)) {}       // NOLINT

  Kind kind() const { return kind_; }
  /// A measure of what it takes to write or compare the value: its parts, and 16 bytes of text each
  /// count one. Values of more than five million, or of more than 100 levels, cannot be made.
  int64_t weight() const { return weight_; }
  /// For a function that holds a value: it counts as one level more than that.
  Value holding(const Value& held) &&;
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return is(Kind::undefined); }
  bool is_none() const { return is(Kind::none); }
  bool is_text() const { return is(Kind::text); }
  bool is_dict() const { return is(Kind::dict); }
  bool is_sequence() const { return is(Kind::list) || is(Kind::tuple); }
  bool is_integral() const { return is(Kind::integer) || is(Kind::boolean); }
  bool is_number() const { return is_integral() || is(Kind::real); }
  /// As messages call it: "int", "str", "list" …
  const char* type_name() const;

  // Each of these is for values of that kind.
  int64_t integer() const;  // booleans too
  double real() const;      // any number
  const std::string& text() const;
  const List& items() const;  // lists and tuples
  const Dict& pairs() const;  // dicts and namespaces
  Dict& space_pairs() const;  // of a namespace
  const Callable& callable() const;
  const std::string& undefined_name() const;

  bool truthy() const;
  /// The items of a list or dict, or 16 bytes of a text each: what it takes to pass over the value
  /// without looking into its items.
  int64_t length() const;
  /// As output has it, Python's str(); and as it would be written in a program, Python's repr().
  std::string to_text() const;
  std::string to_source() const;

 private:
  void contain(const Value& part);

  Kind kind_ = Kind::undefined;
  int32_t depth_ = 0;
  int32_t weight_ = 1;
  std::variant<std::shared_ptr<const Undefined>, bool, int64_t, double,
               std::shared_ptr<const std::string>, std::shared_ptr<const List>,
               std::shared_ptr<Dict>, std::shared_ptr<const Callable>>
      data_;
};

/// What a call was given.
struct Arguments {
  using Named = std::pair<std::string, Value>;
  List positional = {};
  std::vector<Named, ChargedAllocator<Named>> named = {};
};

bool operator==(const Value& a, const Value& b);
/// Throws for what cannot be looked up in a dict: a list or a dict.
void check_key(const Value& key);
/// a < b; throws for values that have no order.
bool less(const Value& a, const Value& b);

struct JsonOptions {
  std::optional<std::string> indent = {};  // none: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// As Python's json.dumps writes it.
std::string to_json(const Value& value, const JsonOptions& options = {});
/// `what` is being read, for messages. At most 64 levels.
Value from_json(std::string_view text, std::string_view what);

/// Python's repr() of a float.
std::string real_to_text(double value);

}  // namespace tensora::llm::jinja
