#include "tensora/llm/chat/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/expression_parser.h"

namespace tensora::llm::jinja {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;
constexpr int kMaxDepth = 100;

using Names = std::initializer_list<std::string_view>;

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Body run() {
    Body body = statements({});
    ensure(current().kind == Token::Kind::end, "template: tokens are left");
    return body;
  }

 private:
  static std::unique_ptr<Statement> make(Statement::Kind kind, const Place& place) {
    return std::make_unique<Statement>(Statement{.kind = kind, .place = place});
  }

  // Up to a tag that begins with one of these names, which is then the current token.
  Body statements(Names until) {
    if (++depth_ > kMaxDepth) fail_at(current().place, "blocks are nested too deeply");
    const Place start = current().place;
    Body out;
    for (;;) {
      const Token& token = current();
      count(token.place);
      if (token.kind == Token::Kind::end) {
        if (until.size() > 0)
          fail_at(token.place, concat("expected ", *until.begin(), " for the block at line ",
                                      start.line, ", got the end"));
        break;
      }
      if (token.kind == Token::Kind::data) {
        auto text = make(Statement::Kind::text, token.place);
        text->name = advance().text;
        out.push_back(std::move(text));
      } else if (token.kind == Token::Kind::print_begin) {
        auto print = make(Statement::Kind::print, token.place);
        advance();
        print->value = tuple();
        expect(Token::Kind::print_end, "}}");
        out.push_back(std::move(print));
      } else {
        advance();  // {%
        const std::string& name = current().text;
        if (std::find(until.begin(), until.end(), name) != until.end()) break;
        if (auto made = statement()) out.push_back(std::move(made));
      }
    }
    --depth_;
    return out;
  }

  void end_tag() { expect(Token::Kind::block_end, "%}"); }

  // The body of a block and its last tag.
  Body body_until(std::string_view end) {
    end_tag();
    Body body = statements({end});
    advance();
    end_tag();
    return body;
  }

  std::unique_ptr<const Statement> statement() {
    const Token token = current();
    if (token.kind != Token::Kind::name) fail_at(token.place, "expected the name of a statement");
    advance();
    const std::string& name = token.text;
    if (name == "for") return loop(token.place);
    if (name == "if") return branch(token.place);
    if (name == "set") return set(token.place);
    if (name == "macro") return macro(token.place);
    if (name == "call") return call_block(token.place);
    if (name == "filter") return filter_block(token.place);
    if (name == "with") return with(token.place);
    if (name == "generation") {
      auto out = make(Statement::Kind::block, token.place);
      out->body = body_until("endgeneration");
      return out;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail_at(token.place, concat(name, " outside of a loop"));
      end_tag();
      return make(name == "break" ? Statement::Kind::leave : Statement::Kind::next, token.place);
    }
    fail_at(token.place, concat("expected a statement (for, if, set, macro, call, filter, with, "
                                "generation, raw, break, continue), got ",
                                name));
  }

  std::unique_ptr<Statement> loop(const Place& place) {
    auto out = make(Statement::Kind::loop, place);
    out->target = target(false);
    expect_name("in");
    out->value = tuple(false);
    if (take_name("if")) out->condition = expression();
    out->recursive = take_name("recursive");
    end_tag();
    ++loops_;
    out->body = statements({"endfor", "else"});
    --loops_;
    if (advance().text == "else") {
      out->otherwise = body_until("endfor");
      return out;
    }
    end_tag();
    return out;
  }

  std::unique_ptr<Statement> branch(const Place& place) {
    auto out = make(Statement::Kind::branch, place);
    for (;;) {
      ExpressionPtr condition = tuple(false);
      end_tag();
      Body body = statements({"endif", "elif", "else"});
      out->branches.emplace_back(std::move(condition), std::move(body));
      const std::string word = advance().text;
      if (word == "elif") continue;
      if (word == "else") {
        out->otherwise = body_until("endif");
        return out;
      }
      end_tag();
      return out;
    }
  }

  std::unique_ptr<Statement> set(const Place& place) {
    auto out = make(Statement::Kind::set, place);
    out->target = target(true);
    if (take_sign("=")) {
      out->value = tuple();
      end_tag();
      return out;
    }
    out->kind = Statement::Kind::set_block;
    out->value = filters(nullptr);
    out->body = within_function([&] { return body_until("endset"); });
    return out;
  }

  // A break belongs to a loop of the same macro or block of text.
  template <class Parse>
  Body within_function(const Parse& parse_body) {
    const int loops = std::exchange(loops_, 0);
    Body body = parse_body();
    loops_ = loops;
    return body;
  }

  // That of a macro, or of what a call passes on as caller.
  void function_body(Statement& function, std::string_view end) {
    const Rest before = std::exchange(rest_, {});
    function.body = within_function([&] { return body_until(end); });
    function.takes_more = rest_.more;
    function.takes_named = rest_.named;
    function.takes_caller = rest_.caller;
    rest_ = {before.more || rest_.more, before.named || rest_.named, before.caller || rest_.caller};
  }

  std::vector<Parameter> signature() {
    std::vector<Parameter> out;
    expect_sign("(");
    while (!current().is_sign(")")) {
      if (!out.empty()) expect_sign(",");
      if (current().is_sign(")")) break;
      const Place place = current().place;
      Parameter parameter{.name = expect(Token::Kind::name, "a name").text, .fallback = nullptr};
      if (take_sign("="))
        parameter.fallback = expression();
      else if (!out.empty() && out.back().fallback)
        fail_at(place, concat("parameter ", parameter.name, " needs a default, as the one before"));
      out.push_back(std::move(parameter));
    }
    expect_sign(")");
    return out;
  }

  std::unique_ptr<Statement> macro(const Place& place) {
    auto out = make(Statement::Kind::macro, place);
    out->name = expect(Token::Kind::name, "the name of the macro").text;
    out->parameters = signature();
    function_body(*out, "endmacro");
    return out;
  }

  std::unique_ptr<Statement> call_block(const Place& place) {
    auto out = make(Statement::Kind::call_block, place);
    if (current().is_sign("(")) out->parameters = signature();
    out->value = expression();
    if (out->value->kind != Expression::Kind::call) fail_at(place, "expected a call");
    function_body(*out, "endcall");
    return out;
  }

  std::unique_ptr<Statement> filter_block(const Place& place) {
    auto out = make(Statement::Kind::filter_block, place);
    out->value = filters(nullptr, true);
    out->body = within_function([&] { return body_until("endfilter"); });
    return out;
  }

  std::unique_ptr<Statement> with(const Place& place) {
    auto out = make(Statement::Kind::with, place);
    while (current().kind != Token::Kind::block_end) {
      if (!out->parameters.empty()) expect_sign(",");
      std::string name = expect(Token::Kind::name, "a name").text;
      expect_sign("=");
      out->parameters.push_back({std::move(name), expression()});
    }
    out->body = body_until("endwith");
    return out;
  }

  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) {
  check(source.size() <= kMaxBytes, "template: expected at most ", kMaxBytes, " bytes, got ",
        source.size());
  return Parser(tokenize(source)).run();
}

}  // namespace tensora::llm::jinja
