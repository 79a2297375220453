#include "tensora/llm/chat/jinja/evaluator.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {

Evaluator::Level::Level(Evaluator& evaluator, const Place& place) : evaluator_(evaluator) {
  if (++evaluator_.depth_ <= evaluator_.limits_.depth) return;
  --evaluator_.depth_;  // no destructor follows
  fail_at(place, "nested too deeply, or endless recursion");
}

// Variables of their own as long as it lives.
class Evaluator::NewScope {
 public:
  NewScope(Evaluator& evaluator, Scope* parent) : evaluator_(evaluator), before_(evaluator.scope_) {
    evaluator_.scopes_.push_back(std::make_unique<Scope>(Scope{.parent = parent}));
    evaluator_.scope_ = evaluator_.scopes_.back().get();
  }
  ~NewScope() {
    // What a macro remembers stays; so does what lies above it in the list.
    if (!evaluator_.scope_->captured && evaluator_.scopes_.back().get() == evaluator_.scope_)
      evaluator_.scopes_.pop_back();
    evaluator_.scope_ = before_;
  }
  NewScope(const NewScope&) = delete;
  NewScope& operator=(const NewScope&) = delete;

 private:
  Evaluator& evaluator_;
  Scope* before_;
};

Evaluator::~Evaluator() {
  for (const Value& space : spaces_) space.space_pairs() = Dict();
  for (const auto& value : changed_) *value = Value();
}

Value Evaluator::make_space(Dict pairs) {
  return spaces_.emplace_back(Value::space(std::move(pairs)));
}

std::string Evaluator::run(const Body& body, const Dict& variables) {
  int64_t given_weight = 0;
  for (const auto& [name, value] : variables.pairs()) given_weight += value.weight();
  const Budget budget(limits_.steps + 32 * given_weight);
  std::string out;
  const NewScope given(*this, nullptr);
  for (const auto& [name, value] : variables.pairs()) set(name.text(), value);
  const NewScope own(*this, scope_);
  execute(body, out);
  return out;
}

std::string Evaluator::made(std::string text) {
  check(text.size() <= limits_.output_bytes, "a text of more than ", limits_.output_bytes,
        " bytes");
  return text;
}

void Evaluator::append(std::string& out, std::string_view text) {
  charge_bytes(text.size());
  check(out.size() + text.size() <= limits_.output_bytes, "more than ", limits_.output_bytes,
        " bytes of output");
  out += text;
}

void Evaluator::append_value(std::string& out, const Value& value) {
  if (value.is_text()) return append(out, value.text());
  append(out, value.to_text());
}

Evaluator::Flow Evaluator::execute(const Body& body, std::string& out) {
  for (const auto& statement : body) {
    const Level level(*this, statement->place);
    try {
      charge(1);
      if (const Flow flow = execute(*statement, out); flow != Flow::normal) return flow;
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with("template: ")) throw;
      fail_at(statement->place, error.what());
    }
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::execute(const Statement& statement, std::string& out) {
  using Kind = Statement::Kind;
  switch (statement.kind) {
    case Kind::text:
      append(out, statement.name);
      break;
    case Kind::print:
      append_value(out, evaluate(*statement.value));
      break;
    case Kind::loop:
      return loop(statement, out, evaluate(*statement.value), 1);
    case Kind::branch:
      return branch(statement, out);
    case Kind::set:
      assign(*statement.target, evaluate(*statement.value));
      break;
    case Kind::set_block: {
      const Value text = captured_text(statement);
      assign(*statement.target, statement.value ? filtered(*statement.value, &text) : text);
      break;
    }
    case Kind::macro:
      set(statement.name, macro(statement, statement.name));
      break;
    case Kind::call_block:
      append_value(out, call_block(statement));
      break;
    case Kind::filter_block: {
      const Value text = captured_text(statement);
      append_value(out, filtered(*statement.value, &text));
      break;
    }
    case Kind::with:
      with(statement, out);
      break;
    case Kind::block:
      return execute(statement.body, out);
    case Kind::leave:
      return Flow::leave;
    case Kind::next:
      return Flow::next;
  }
  return Flow::normal;
}

std::string Evaluator::captured_text(const Statement& statement) {
  const NewScope own(*this, scope_);
  std::string text;
  execute(statement.body, text);
  return text;
}

Evaluator::Flow Evaluator::branch(const Statement& statement, std::string& out) {
  for (const auto& [condition, body] : statement.branches)
    if (evaluate(*condition).truthy()) return execute(body, out);
  return execute(statement.otherwise, out);
}

void Evaluator::with(const Statement& statement, std::string& out) {
  List values;  // seen from outside, all of them
  for (const Parameter& parameter : statement.parameters)
    values.push_back(evaluate(*parameter.fallback));
  const NewScope own(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) set(statement.parameters[i].name, values[i]);
  execute(statement.body, out);
}

Evaluator::Flow Evaluator::loop(const Statement& statement, std::string& out, const Value& over,
                                int64_t depth) {
  List items = iterate(over);
  if (statement.condition) {
    List kept;
    for (Value& item : items) {
      const NewScope own(*this, scope_);
      assign(*statement.target, item);
      if (evaluate(*statement.condition).truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  const auto last = std::make_shared<Value>();  // for loop.changed
  bool ended = false;                           // whether an iteration reached the end of the body
  for (size_t i = 0; i < items.size(); ++i) {
    const NewScope own(*this, scope_);
    set("loop", loop_variable(statement, items, i, depth, last));
    assign(*statement.target, items[i]);
    const Flow flow = execute(statement.body, out);
    ended = ended || flow == Flow::normal;
    if (flow == Flow::leave) break;
  }
  if (ended) return Flow::normal;
  // As in Jinja, `else` also follows a loop whose iterations all ended by break or continue.
  const NewScope own(*this, scope_);
  return execute(statement.otherwise, out);
}

Value Evaluator::loop_variable(const Statement& statement, const List& items, size_t place,
                               int64_t depth, const std::shared_ptr<Value>& last) {
  // Made once: every iteration has these fields.
  static const List names = {"index",    "index0", "revindex", "revindex0", "first",
                             "last",     "length", "depth",    "depth0",    "previtem",
                             "nextitem", "cycle",  "changed"};
  const size_t size = items.size();
  const auto cycle = [place](Evaluator&, const Arguments& given) {
    check(!given.positional.empty() && given.named.empty(), "cycle: expected values without names");
    return given.positional[place % given.positional.size()];
  };
  const auto changed = [last](Evaluator& evaluator, const Arguments& given) {
    check(given.named.empty(), "changed: expected values without names");
    const Value now = Value::tuple(given.positional);
    charge(now.weight());
    const bool differs = last->is_undefined() || !(*last == now);
    // It may hold the loop, and so itself.
    if (last->is_undefined()) evaluator.changed_.push_back(last);
    *last = now;
    return Value(differs);
  };
  Dict fields;
  fields.reserve(names.size());
  size_t next = 0;
  const auto add = [&](Value value) { fields.set(names[next++], std::move(value)); };
  add(place + 1);
  add(place);
  add(size - place);
  add(size - place - 1);
  add(place == 0);
  add(place + 1 == size);
  add(size);
  add(depth);
  add(depth - 1);
  add(place == 0 ? Value::undefined("there is no previous item") : items[place - 1]);
  add(place + 1 == size ? Value::undefined("there is no next item") : items[place + 1]);
  add(Value::function("cycle", cycle));
  add(Value::function("changed", changed));
  const Statement* code = statement.recursive ? &statement : nullptr;
  return Value::function(
      "loop",
      [code, depth](Evaluator& evaluator, const Arguments& given) {
        check(code != nullptr, "the loop is not recursive");
        const Bound bound(given, {"iterable"}, "loop");
        std::string text;
        evaluator.loop(*code, text, bound.required(0), depth + 1);
        return Value(std::move(text));
      },
      std::move(fields));
}

void Evaluator::assign(const Expression& target, Value value) {
  if (target.kind == Expression::Kind::variable) return set(target.name, std::move(value));
  if (target.kind == Expression::Kind::attribute) {
    const Value space = lookup(target.parts[0]->name);
    check(space.is(Value::Kind::space), "expected ", target.parts[0]->name,
          " to be a namespace, got a ", space.type_name());
    space.space_pairs().set(target.name, std::move(value));
    return;
  }
  const List items = iterate(value);
  check(items.size() == target.parts.size(), "expected ", target.parts.size(),
        " values to unpack, got ", items.size());
  for (size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
}

Value Evaluator::macro(const Statement& statement, const std::string& name) {
  for (Scope* scope = scope_; scope; scope = scope->parent) scope->captured = true;
  Scope* home = scope_;
  Dict fields;
  List parameters;
  for (const Parameter& parameter : statement.parameters) parameters.emplace_back(parameter.name);
  fields.set("name", name);
  fields.set("arguments", Value::tuple(std::move(parameters)));
  return Value::function(
      name,
      [&statement, home, name](Evaluator& evaluator, const Arguments& given) {
        return evaluator.call_macro(statement, home, name, given);
      },
      std::move(fields));
}

Value Evaluator::call_macro(const Statement& statement, Scope* home, const std::string& name,
                            const Arguments& given) {
  const auto& parameters = statement.parameters;
  const auto count = std::ssize(parameters);
  charge(count * (count + std::ssize(given.named)) / 16);  // names are compared one by one
  const NewScope own(*this, home);
  List more;
  Dict named;
  check(statement.takes_more || given.positional.size() <= parameters.size(), name,
        ": expected at most ", count, " arguments, got ", given.positional.size());
  for (size_t i = 0; i < given.positional.size(); ++i) {
    if (i < parameters.size())
      set(parameters[i].name, given.positional[i]);
    else
      more.push_back(given.positional[i]);
  }
  for (const auto& argument : given.named) {
    const std::string& key = argument.first;
    const Value& value = argument.second;
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const Parameter& p) { return p.name == key; });
    if (found == parameters.end() && !(key == "caller" && statement.takes_caller)) {
      check(statement.takes_named && key != "caller", name, ": has no parameter ", key);
      named.set(key, value);
      continue;
    }
    check(found == parameters.end() || found - parameters.begin() >= std::ssize(given.positional),
          name, ": parameter ", key, " is given twice");
    set(key, value);
  }
  const auto is_set = [&](const std::string& key) {
    return std::any_of(scope_->variables.begin(), scope_->variables.end(),
                       [&](const auto& variable) { return variable.first == key; });
  };
  for (const Parameter& parameter : parameters)
    if (!is_set(parameter.name))
      set(parameter.name, parameter.fallback ? evaluate(*parameter.fallback)
                                             : Value::undefined("parameter " + parameter.name));
  set("varargs", Value::tuple(std::move(more)));
  set("kwargs", Value::dict(std::move(named)));
  std::string text;
  execute(statement.body, text);
  return text;
}

Value Evaluator::call_block(const Statement& statement) {
  const Expression& callee = *statement.value;
  Arguments given = arguments(callee.arguments);
  given.named.emplace_back("caller", macro(statement, "caller"));
  return call(evaluate(*callee.parts[0]), given);
}

Bound::Bound(const Arguments& arguments, std::initializer_list<std::string_view> names,
             std::string_view function)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  check(arguments.positional.size() <= names.size(), function, ": expected at most ", names.size(),
        " arguments, got ", arguments.positional.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    check(found != names_.end(), function, ": has no parameter ", name);
    const Value*& place = values_[static_cast<size_t>(found - names_.begin())];
    check(place == nullptr, function, ": parameter ", name, " is given twice");
    place = &value;
  }
}

const Value& Bound::required(size_t i) const {
  check(values_[i] != nullptr, function_, ": expected the argument ", names_[i]);
  return *values_[i];
}

}  // namespace tensora::llm::jinja
