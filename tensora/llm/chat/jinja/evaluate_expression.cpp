#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

using Kind = Expression::Kind;

// Python's slice(start, stop, step).indices(size).
struct Indices {
  int64_t from, to, by;

  Indices(const Value& start, const Value& stop, const Value& step, int64_t size) {
    const auto given = [](const Value& value) { return !value.is_none() && !value.is_undefined(); };
    by = given(step) ? step.integer() : 1;
    check(by != 0, "a slice's step must not be 0");
    const int64_t least = by > 0 ? 0 : -1, most = by > 0 ? size : size - 1;
    const auto bound = [&](const Value& value, int64_t fallback) {
      if (!given(value)) return fallback;
      const int64_t i = value.integer();
      return std::clamp(i < 0 ? (i < -size ? -1 : i + size) : i, least, most);
    };
    from = bound(start, by > 0 ? 0 : size - 1);
    to = bound(stop, by > 0 ? size : -1);
    by = std::clamp(by, -size - 1, size + 1);  // a larger step ends it, too, and might overflow
  }

  template <class Visit>
  void each(const Visit& visit) const {
    for (int64_t i = from; by > 0 ? i < to : i > to; i += by) visit(static_cast<size_t>(i));
  }
};

}  // namespace

void Evaluator::set(const std::string& name, Value value) {
  charge(std::ssize(scope_->variables) / 16);
  for (auto& [known, old] : scope_->variables)
    if (known == name) {
      old = std::move(value);
      return;
    }
  scope_->variables.emplace_back(name, std::move(value));
}

Value Evaluator::lookup(const std::string& name) const {
  for (const Scope* scope = scope_; scope; scope = scope->parent) {
    charge(std::ssize(scope->variables) / 16);
    for (const auto& [known, value] : scope->variables)
      if (known == name) return value;
  }
  if (const Value* global = find_global(name)) return *global;
  return Value::undefined(name);
}

Value Evaluator::evaluate(const Expression& expression) {
  const Level level(*this, expression.place);
  try {
    charge(1);
    return compute(expression);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("template: ")) throw;
    fail_at(expression.place, error.what());
  }
}

Value Evaluator::compute(const Expression& expression) {
  const auto part = [&](size_t i) { return evaluate(*expression.parts[i]); };
  const auto all = [&] {
    List items;
    for (const ExpressionPtr& item : expression.parts) items.push_back(evaluate(*item));
    return items;
  };
  switch (expression.kind) {
    case Kind::constant:
      return expression.value;
    case Kind::variable:
      return lookup(expression.name);
    case Kind::list:
      return Value::list(all());
    case Kind::tuple:
      return Value::tuple(all());
    case Kind::dict: {
      Dict pairs;
      for (size_t i = 0; i < expression.parts.size(); i += 2) {
        const Value key = part(i);
        pairs.set(key, part(i + 1));
      }
      return Value::dict(std::move(pairs));
    }
    case Kind::attribute:
      return attribute(part(0), expression.name);
    case Kind::subscript:
      return item(part(0), part(1));
    case Kind::slice:
      return slice(expression);
    case Kind::call:
      return call(part(0), arguments(expression.arguments));
    case Kind::filter:
      return filtered(expression, nullptr);
    case Kind::test: {
      const Value tested = part(0);
      return apply_test(expression.name, tested, arguments(expression.arguments));
    }
    case Kind::unary: {
      const Value value = part(0);
      if (expression.name == "not") return !value.truthy();
      if (expression.name == "+")
        return value.is(Value::Kind::real) ? value : arithmetic(*this, "+", 0, value);
      return arithmetic(*this, "-", value.is(Value::Kind::real) ? Value(-0.0) : Value(0), value);
    }
    case Kind::binary:
      return binary(expression);
    case Kind::join: {
      std::string text;
      for (const Value& value : all()) append_value(text, value);
      return text;
    }
    case Kind::compare:
      return comparison(expression);
    case Kind::condition:
      break;
  }
  if (part(1).truthy()) return part(0);
  return expression.parts[2] ? part(2) : Value::undefined("a condition without else");
}

Value Evaluator::binary(const Expression& expression) {
  const Value left = evaluate(*expression.parts[0]);
  if (expression.name == "and") return left.truthy() ? evaluate(*expression.parts[1]) : left;
  if (expression.name == "or") return left.truthy() ? left : evaluate(*expression.parts[1]);
  return arithmetic(*this, expression.name, left, evaluate(*expression.parts[1]));
}

Value Evaluator::comparison(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (size_t i = 0; i < expression.names.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1]);
    if (!compares(expression.names[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Evaluator::arguments(const std::vector<Argument>& given) {
  Arguments out;
  for (const Argument& argument : given) {
    const Value value = evaluate(*argument.value);
    if (argument.kind == Argument::Kind::positional) {
      out.positional.push_back(value);
    } else if (argument.kind == Argument::Kind::named) {
      out.named.emplace_back(argument.name, value);
    } else if (argument.kind == Argument::Kind::list) {
      for (Value& item : iterate(value)) out.positional.push_back(std::move(item));
    } else {
      for (const auto& [key, item] : value.pairs().pairs()) {
        charge(key.weight());
        out.named.emplace_back(key.text(), item);
      }
    }
  }
  return out;
}

// Filters of a block have the block's text in the place of a value.
Value Evaluator::filtered(const Expression& expression, const Value* body) {
  const Expression* inner = expression.parts[0].get();
  const Value value = !inner ? *body : body ? filtered(*inner, body) : evaluate(*inner);
  return apply_filter(expression.name, value, arguments(expression.arguments));
}

Value Evaluator::call(const Value& callee, const Arguments& given) {
  check(!callee.is_undefined(), callee.undefined_name(), " is undefined and cannot be called");
  charge_call(Cost::constant, callee, given);
  return callee.callable().function(*this, given);
}

Value Evaluator::apply_filter(std::string_view name, const Value& value, const Arguments& given) {
  charge_bytes(name.size());
  const Filter* filter = find_filter(name);
  if (!filter) filter = find_list_filter(name);
  check(filter != nullptr, "there is no filter ", name);
  return (*filter)(*this, value, given);
}

bool Evaluator::apply_test(std::string_view name, const Value& value, const Arguments& given) {
  charge_bytes(name.size());
  const Test* test = find_test(name);
  check(test != nullptr, "there is no test ", name);
  return (*test)(*this, value, given);
}

Value Evaluator::attribute(const Value& object, const std::string& name) {
  check(!object.is_undefined(), object.undefined_name(), " is undefined and has no ", name);
  charge_bytes(name.size());
  if (const Method* method = find_method(object, name))
    return Value::function(name,
                           [method, object](Evaluator& evaluator, const Arguments& given) {
                             return (*method)(evaluator, object, given);
                           })
        .holding(object);
  const Value* found = nullptr;
  if (object.is_dict() || object.is(Value::Kind::space)) found = object.pairs().find_text(name);
  if (object.is(Value::Kind::function)) found = object.callable().attributes.find_text(name);
  return found ? *found : Value::undefined(concat("attribute ", name));
}

Value Evaluator::item(const Value& object, const Value& key) {
  check(!object.is_undefined(), object.undefined_name(), " is undefined and has no items");
  if (object.is_dict()) {
    if (const Value* found = object.pairs().find(key)) return *found;
  } else if (key.is_integral() && (object.is_sequence() || object.is_text())) {
    if (object.is_text()) charge(object.length());
    const auto size = object.is_text() ? static_cast<int64_t>(code_points(object.text()))
                                       : std::ssize(object.items());
    const int64_t place = key.integer() < 0 ? key.integer() + size : key.integer();
    if (place < 0 || place >= size) return Value::undefined(concat("item ", key.integer()));
    if (!object.is_text()) return object.items()[static_cast<size_t>(place)];
    const std::string_view rest =
        std::string_view(object.text()).substr(bytes_of(object.text(), place));
    return rest.substr(0, bytes_of(rest, 1));
  }
  if (key.is_text()) return attribute(object, key.text());
  return Value::undefined(concat("item ", key.to_source()));
}

Value Evaluator::text_slice(const Value& object, const Value* bounds) {
  charge(object.length());
  const std::string_view text = object.text();
  const Indices indices(bounds[0], bounds[1], bounds[2], static_cast<int64_t>(code_points(text)));
  if (indices.by == 1) {
    const std::string_view rest = text.substr(bytes_of(text, indices.from));
    return rest.substr(0, bytes_of(rest, indices.to - indices.from));
  }
  const Letters letters = letters_of(text);
  std::string out;
  indices.each([&](size_t i) { out += letters[i]; });
  return out;
}

Value Evaluator::slice(const Expression& expression) {
  const Value object = evaluate(*expression.parts[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i)
    if (expression.parts[i + 1]) {
      bounds[i] = evaluate(*expression.parts[i + 1]);
      check(!bounds[i].is_undefined(), bounds[i].undefined_name(), " is undefined");
    }
  check(!object.is_undefined(), object.undefined_name(), " is undefined and has no items");
  check(object.is_text() || object.is_sequence(), "expected a list or a text to slice, got a ",
        object.type_name());
  if (object.is_text()) return text_slice(object, bounds);
  const List& items = object.items();
  const Indices indices(bounds[0], bounds[1], bounds[2], std::ssize(items));
  List out;
  indices.each([&](size_t i) { out.push_back(items[i]); });
  return object.is(Value::Kind::tuple) ? Value::tuple(std::move(out)) : Value::list(std::move(out));
}

void check_none(const Arguments& arguments) {
  const size_t count = arguments.positional.size() + arguments.named.size();
  check(count == 0, "expected no arguments, got ", count);
}

void charge_call(Cost cost, const Value& value, const Arguments& arguments) {
  const auto measure = [&](const Value& v) {
    return cost == Cost::whole ? v.weight() : v.length();
  };
  if (cost != Cost::constant) charge(measure(value));
  for (const Value& argument : arguments.positional) charge(measure(argument));
  for (const auto& [name, argument] : arguments.named) charge(measure(argument) + 1);
}

List Evaluator::iterate(const Value& value) {
  List out;
  if (value.is_undefined()) return out;
  if (value.is_text()) {
    for (const std::string_view letter : letters_of(value.text())) out.emplace_back(letter);
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.pairs().pairs()) out.push_back(key);
  } else {
    check(value.is_sequence(), "a ", value.type_name(), " cannot be iterated over");
    out = value.items();
  }
  return out;
}

}  // namespace tensora::llm::jinja
