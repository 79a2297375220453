#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensora/llm/chat/jinja/lexer.h"
#include "tensora/llm/chat/jinja/value.h"

namespace tensora::llm::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Argument {
  enum class Kind : uint8_t { positional, named, list, dict };  // x, name=x, *x, **x
  Kind kind = Kind::positional;
  std::string name = {};
  ExpressionPtr value;
};

struct Expression {
  enum class Kind : uint8_t {
    constant,   // value
    variable,   // name
    list,       // parts
    tuple,      // parts
    dict,       // parts: key, value, key, value …
    attribute,  // parts[0].name
    subscript,  // parts[0][parts[1]]
    slice,      // parts[0][parts[1]:parts[2]:parts[3]]; those missing are null
    call,       // parts[0](arguments)
    filter,     // parts[0] | name(arguments); parts[0] is null for the body of a block
    test,       // parts[0] is name(arguments)
    unary,      // name parts[0]: -, +, not
    binary,     // parts[0] name parts[1]: + - * / // % ** and or
    join,       // parts, as texts: ~
    compare,    // parts[0] names[0] parts[1] names[1] …
    condition,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind;
  Place place;
  int depth = 1;  // of the tree below
  std::string name = {};
  Value value = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::string> names = {};
  std::vector<Argument> arguments = {};
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: none
};

struct Statement {
  enum class Kind : uint8_t {
    text,          // name
    print,         // value
    loop,          // for target in value if condition: body, otherwise; recursive
    branch,        // branches, otherwise
    set,           // target = value
    set_block,     // target = body, through the filters of value
    macro,         // name(parameters): body
    call_block,    // value is a call whose caller() is body, with parameters
    filter_block,  // body through the filters of value
    with,          // parameters, with their values, for body
    block,         // body
    leave,         // break
    next,          // continue
  };
  Kind kind;
  Place place;
  std::string name = {};
  ExpressionPtr target = {};  // a name, a tuple of targets, or an attribute of a name
  ExpressionPtr value = {};
  ExpressionPtr condition = {};
  bool recursive = false;
  // Whether the body of a macro reads varargs, kwargs and caller: without, such arguments are
  // refused.
  bool takes_more = false, takes_named = false, takes_caller = false;
  Body body = {};
  Body otherwise = {};
  std::vector<std::pair<ExpressionPtr, Body>> branches = {};
  std::vector<Parameter> parameters = {};
};

}  // namespace tensora::llm::jinja
