#include "tensora/llm/chat/jinja/expression_parser.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/text.h"

namespace tensora::llm::jinja {
namespace {

constexpr size_t kMaxParts = 100'000;
constexpr int kMaxNesting = 100;  // of parentheses
constexpr int kMaxDepth = 200;    // of the tree: long sums are deep, too

using Kind = Expression::Kind;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::block_end:
      return "%}";
    case Token::Kind::print_end:
      return "}}";
    case Token::Kind::end:
      return "the end";
    case Token::Kind::text:
      return "a text";
    default:
      return token.text;
  }
}

}  // namespace

// Counts levels of recursion as long as it lives.
class ExpressionParser::Level {
 public:
  explicit Level(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxNesting)
      fail_at(parser_.current().place, "expressions are nested too deeply");
  }
  ~Level() { --parser_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  ExpressionParser& parser_;
};

const Token& ExpressionParser::expect(Token::Kind kind, std::string_view what) {
  if (current().kind != kind)
    fail_at(current().place, concat("expected ", what, ", got ", shown(current())));
  return advance();
}

void ExpressionParser::expect_sign(std::string_view sign) {
  if (!take_sign(sign))
    fail_at(current().place, concat("expected ", sign, ", got ", shown(current())));
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!take_name(name))
    fail_at(current().place, concat("expected ", name, ", got ", shown(current())));
}

bool ExpressionParser::take_sign(std::string_view sign) {
  const bool found = current().is_sign(sign);
  if (found) advance();
  return found;
}

bool ExpressionParser::take_name(std::string_view name) {
  const bool found = current().is_name(name);
  if (found) advance();
  return found;
}

void ExpressionParser::count(const Place& place) {
  if (++parts_ > kMaxParts)
    fail_at(place, concat("the template is too large: more than ", kMaxParts, " parts"));
}

ExpressionParser::Made ExpressionParser::make(Kind kind, const Place& place) {
  count(place);
  return std::make_unique<Expression>(Expression{.kind = kind, .place = place});
}

ExpressionPtr ExpressionParser::finish(Made made) {
  for (const ExpressionPtr& part : made->parts)
    if (part) made->depth = std::max(made->depth, part->depth + 1);
  for (const Argument& argument : made->arguments)
    made->depth = std::max(made->depth, argument.value->depth + 1);
  if (made->depth > kMaxDepth) fail_at(made->place, "the expression is too long");
  return made;
}

ExpressionPtr ExpressionParser::binary(ExpressionPtr left, const Token& sign, ExpressionPtr right) {
  Made out = make(Kind::binary, sign.place);
  out->name = sign.text;
  out->parts.push_back(std::move(left));
  out->parts.push_back(std::move(right));
  return finish(std::move(out));
}

ExpressionPtr ExpressionParser::expression(bool conditional) {
  const Level level(*this);
  ExpressionPtr out = disjunction();
  while (conditional && current().is_name("if")) {
    Made condition = make(Kind::condition, advance().place);
    condition->parts.push_back(std::move(out));
    condition->parts.push_back(disjunction());
    condition->parts.push_back(take_name("else") ? expression() : nullptr);
    out = finish(std::move(condition));
  }
  return out;
}

ExpressionPtr ExpressionParser::tuple(bool conditional) {
  const Place place = current().place;
  ExpressionPtr first = expression(conditional);
  if (!current().is_sign(",")) return first;
  Made out = make(Kind::tuple, place);
  out->parts.push_back(std::move(first));
  while (take_sign(",")) {
    const Token& next = current();
    if (next.kind == Token::Kind::block_end || next.kind == Token::Kind::print_end ||
        next.is_sign(")"))
      break;
    out->parts.push_back(expression(conditional));
  }
  return finish(std::move(out));
}

ExpressionPtr ExpressionParser::target(bool attributes) {
  const Level level(*this);
  const Place place = current().place;
  std::vector<ExpressionPtr> parts;
  bool is_tuple = false;
  do {
    if (!parts.empty()) is_tuple = true;
    if (is_tuple && (current().is_name("in") || current().is_sign("="))) break;
    if (take_sign("(")) {
      parts.push_back(target(attributes));
      expect_sign(")");
      continue;
    }
    Made one = make(Kind::variable, current().place);
    one->name = expect(Token::Kind::name, "a name to assign to").text;
    const auto reserved = {"true", "false", "none", "True", "False", "None"};
    if (std::find(reserved.begin(), reserved.end(), one->name) != reserved.end())
      fail_at(one->place, concat("cannot assign to ", one->name));
    if (attributes && take_sign(".")) {
      Made attribute = make(Kind::attribute, one->place);
      attribute->name = expect(Token::Kind::name, "a name").text;
      attribute->parts.push_back(finish(std::move(one)));
      one = std::move(attribute);
    }
    parts.push_back(finish(std::move(one)));
  } while (take_sign(","));
  if (!is_tuple) return std::move(parts[0]);
  Made out = make(Kind::tuple, place);
  out->parts = std::move(parts);
  return finish(std::move(out));
}

ExpressionPtr ExpressionParser::disjunction() {
  ExpressionPtr out = conjunction();
  while (current().is_name("or")) {
    const Token sign = advance();
    out = binary(std::move(out), sign, conjunction());
  }
  return out;
}

ExpressionPtr ExpressionParser::conjunction() {
  ExpressionPtr out = negation();
  while (current().is_name("and")) {
    const Token sign = advance();
    out = binary(std::move(out), sign, negation());
  }
  return out;
}

ExpressionPtr ExpressionParser::negation() {
  if (!current().is_name("not")) return comparison();
  const Level level(*this);
  Made out = make(Kind::unary, current().place);
  out->name = advance().text;
  out->parts.push_back(negation());
  return finish(std::move(out));
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  Made out;
  for (;;) {
    std::string sign;
    for (const char* known : {"==", "!=", "<", "<=", ">", ">="})
      if (current().is_sign(known)) sign = known;
    if (current().is_name("in")) sign = "in";
    if (current().is_name("not") && tokens_[at_ + 1].is_name("in")) sign = "not in";
    if (sign.empty()) break;
    if (!out) {
      out = make(Kind::compare, current().place);
      out->parts.push_back(std::move(first));
    }
    if (sign == "not in") advance();
    advance();
    out->names.push_back(sign);
    out->parts.push_back(sum());
  }
  return out ? finish(std::move(out)) : std::move(first);
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr out = joined();
  while (current().is_sign("+") || current().is_sign("-")) {
    const Token sign = advance();
    out = binary(std::move(out), sign, joined());
  }
  return out;
}

ExpressionPtr ExpressionParser::joined() {
  ExpressionPtr first = product();
  if (!current().is_sign("~")) return first;
  Made out = make(Kind::join, current().place);
  out->parts.push_back(std::move(first));
  while (take_sign("~")) out->parts.push_back(product());
  return finish(std::move(out));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr out = power();
  while (current().is_sign("*") || current().is_sign("/") || current().is_sign("//") ||
         current().is_sign("%")) {
    const Token sign = advance();
    out = binary(std::move(out), sign, power());
  }
  return out;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr out = unary(true);
  while (current().is_sign("**")) {
    const Token sign = advance();
    out = binary(std::move(out), sign, unary(true));
  }
  return out;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Level level(*this);
  ExpressionPtr out;
  if (current().is_sign("-") || current().is_sign("+")) {
    Made made = make(Kind::unary, current().place);
    made->name = advance().text;
    made->parts.push_back(unary(false));
    out = finish(std::move(made));
  } else {
    out = primary();
  }
  out = postfix(std::move(out));
  return with_filters ? postfix_filters(std::move(out)) : std::move(out);
}

ExpressionPtr ExpressionParser::primary() {
  const Token token = current();
  Made out = make(Kind::constant, token.place);
  switch (token.kind) {
    case Token::Kind::name:
      advance();
      if (token.text == "true" || token.text == "True") {
        out->value = true;
      } else if (token.text == "false" || token.text == "False") {
        out->value = false;
      } else if (token.text == "none" || token.text == "None") {
        out->value = Value::none();
      } else {
        out->kind = Kind::variable;
        out->name = token.text;
        rest_.more = rest_.more || token.text == "varargs";
        rest_.named = rest_.named || token.text == "kwargs";
        rest_.caller = rest_.caller || token.text == "caller";
      }
      return finish(std::move(out));
    case Token::Kind::text: {
      std::string text;
      while (current().kind == Token::Kind::text) text += advance().text;
      out->value = std::move(text);
      return finish(std::move(out));
    }
    case Token::Kind::integer: {
      const auto value = parse_integer(advance().text);
      if (!value) fail_at(token.place, concat("the number ", token.text, " is too large"));
      out->value = *value;
      return finish(std::move(out));
    }
    case Token::Kind::real: {
      const auto value = parse_real(advance().text);
      if (!value) fail_at(token.place, concat("the number ", token.text, " is too large"));
      out->value = *value;
      return finish(std::move(out));
    }
    default:
      break;
  }
  if (token.is_sign("[") || token.is_sign("{")) return list_or_dict();
  if (!take_sign("(")) fail_at(token.place, concat("expected an expression, got ", shown(token)));
  if (take_sign(")")) {
    out->kind = Kind::tuple;
    return finish(std::move(out));
  }
  ExpressionPtr inner = tuple();
  expect_sign(")");
  return inner;
}

ExpressionPtr ExpressionParser::list_or_dict() {
  const bool dict = current().is_sign("{");
  const std::string_view end = dict ? "}" : "]";
  Made out = make(dict ? Kind::dict : Kind::list, advance().place);
  while (!current().is_sign(end)) {
    if (!out->parts.empty()) expect_sign(",");
    if (current().is_sign(end)) break;
    out->parts.push_back(expression());
    if (!dict) continue;
    expect_sign(":");
    out->parts.push_back(expression());
  }
  expect_sign(end);
  return finish(std::move(out));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (;;) {
    const Place place = current().place;
    if (take_sign(".")) {
      const Token name = advance();
      if (name.kind != Token::Kind::name && name.kind != Token::Kind::integer)
        fail_at(name.place, concat("expected a name after the dot, got ", shown(name)));
      const bool number = name.kind == Token::Kind::integer;
      Made out = make(number ? Kind::subscript : Kind::attribute, place);
      out->name = name.text;
      out->parts.push_back(std::move(value));
      if (number) {
        Made index = make(Kind::constant, name.place);
        index->value = parse_integer(name.text).value_or(0);
        out->parts.push_back(finish(std::move(index)));
      }
      value = finish(std::move(out));
    } else if (current().is_sign("[")) {
      value = subscript(std::move(value));
    } else if (current().is_sign("(")) {
      Made out = make(Kind::call, place);
      out->parts.push_back(std::move(value));
      out->arguments = call_arguments();
      value = finish(std::move(out));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  Made out = make(Kind::subscript, advance().place);
  out->parts.push_back(std::move(value));
  const auto ends = [&] { return current().is_sign(":") || current().is_sign("]"); };
  ExpressionPtr first = ends() ? nullptr : tuple();
  if (!current().is_sign(":")) {
    if (!first) fail_at(current().place, "expected an index");
    out->parts.push_back(std::move(first));
  } else {
    out->kind = Kind::slice;
    out->parts.push_back(std::move(first));
    for (int i = 0; i < 2; ++i)
      out->parts.push_back(take_sign(":") && !ends() ? expression() : nullptr);
  }
  expect_sign("]");
  return finish(std::move(out));
}

std::vector<Argument> ExpressionParser::call_arguments() {
  std::vector<Argument> out;
  expect_sign("(");
  while (!current().is_sign(")")) {
    if (!out.empty()) expect_sign(",");
    if (current().is_sign(")")) break;
    const Place place = current().place;
    Argument argument;
    if (take_sign("*")) {
      argument.kind = Argument::Kind::list;
    } else if (take_sign("**")) {
      argument.kind = Argument::Kind::dict;
    } else if (current().kind == Token::Kind::name && tokens_[at_ + 1].is_sign("=")) {
      argument.kind = Argument::Kind::named;
      argument.name = advance().text;
      advance();
    }
    if (!out.empty() && argument.kind < out.back().kind)
      fail_at(place, "arguments without a name come before those with one");
    argument.value = expression();
    out.push_back(std::move(argument));
  }
  expect_sign(")");
  return out;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr value, bool begins) {
  while (begins || current().is_sign("|")) {
    if (!begins) advance();
    begins = false;
    Made out = make(Kind::filter, current().place);
    out->name = expect(Token::Kind::name, "the name of a filter").text;
    out->parts.push_back(std::move(value));
    if (current().is_sign("(")) out->arguments = call_arguments();
    value = finish(std::move(out));
  }
  return value;
}

ExpressionPtr ExpressionParser::postfix_filters(ExpressionPtr value) {
  for (;;) {
    if (current().is_sign("|")) {
      value = filters(std::move(value));
    } else if (current().is_name("is")) {
      value = test(std::move(value));
    } else if (current().is_sign("(")) {
      value = postfix(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const Place place = advance().place;
  const bool negated = take_name("not");
  Made out = make(Kind::test, place);
  out->name = expect(Token::Kind::name, "the name of a test").text;
  out->parts.push_back(std::move(value));
  const Token& next = current();
  const bool word = next.kind == Token::Kind::name && !next.is_name("else") &&
                    !next.is_name("or") && !next.is_name("and");
  if (next.is_sign("(")) {
    out->arguments = call_arguments();
  } else if (word || next.kind == Token::Kind::text || next.kind == Token::Kind::integer ||
             next.kind == Token::Kind::real || next.is_sign("[") || next.is_sign("{")) {
    if (next.is_name("is")) fail_at(next.place, "tests cannot be chained with is");
    Argument argument;
    argument.value = postfix(primary());
    out->arguments.push_back(std::move(argument));
  }
  ExpressionPtr made = finish(std::move(out));
  if (!negated) return made;
  Made inverse = make(Kind::unary, place);
  inverse->name = "not";
  inverse->parts.push_back(std::move(made));
  return finish(std::move(inverse));
}

}  // namespace tensora::llm::jinja
