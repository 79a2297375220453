#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/chat/jinja/ast.h"

namespace tensora::llm::jinja {

/// Reads expressions from a list of tokens, by recursive descent in Jinja's order of precedence.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& current() const { return tokens_[at_]; }
  const Token& advance() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  const Token& expect(Token::Kind kind, std::string_view what);
  void expect_sign(std::string_view sign);
  void expect_name(std::string_view name);
  bool take_sign(std::string_view sign);
  bool take_name(std::string_view name);
  /// Throws if the template has too many parts.
  void count(const Place& place);

  /// An expression; without `conditional`, one that a following `if` does not belong to.
  ExpressionPtr expression(bool conditional = true);
  /// An expression, or several with commas between them.
  ExpressionPtr tuple(bool conditional = true);
  /// What can be assigned to; with `attributes`, also ns.name.
  ExpressionPtr target(bool attributes);
  /// Filters that follow a value, which may be null; `begins`: with a name, not with |.
  ExpressionPtr filters(ExpressionPtr value, bool begins = false);

  /// Which names that stand for the rest of a macro's arguments were read.
  struct Rest {
    bool more = false, named = false, caller = false;  // varargs, kwargs, caller
  };
  Rest rest_;

 private:
  using Made = std::unique_ptr<Expression>;
  class Level;

  Made make(Expression::Kind kind, const Place& place);
  ExpressionPtr finish(Made made);
  ExpressionPtr binary(ExpressionPtr left, const Token& sign, ExpressionPtr right);

  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr joined();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr postfix_filters(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  ExpressionPtr list_or_dict();
  std::vector<Argument> call_arguments();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t parts_ = 0;
  int depth_ = 0;
};

}  // namespace tensora::llm::jinja
