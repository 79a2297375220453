#include <algorithm>
#include <cmath>

#include "targets.h"
#include "tensora/base/check.h"
#include "tensora/llm/chat/chat_template.h"
#include "tensora/llm/grammar/grammar_matcher.h"
#include "tensora/llm/grammar/json_schema.h"
#include "tensora/llm/tokenizer/pattern.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::fuzz {
namespace {

using namespace llm;

// Parsed, and written with a conversation that has everything in it.
void jinja(std::string_view input) {
  const ChatTemplate chat(std::string(input), "<s>", "</s>");
  const std::vector<Message> messages = {
      {.role = "system", .content = "Be brief."},
      {.role = "user", .content = "What is 1 + 1?"},
      {.role = "assistant",
       .content = "",
       .reasoning = "A sum.",
       .tool_calls = {{.id = "123456789", .name = "add", .arguments = R"({"a": 1, "b": [1.5]})"}}},
      {.role = "tool", .content = "2", .name = "add", .tool_call_id = "123456789"},
      {.role = "assistant", .content = "2 \xc3\xa9"},
      {.role = "user", .content = "Thanks"}};
  const char* const tools =
      R"([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}])";
  chat.render(messages, {.tools = tools, .variables = R"({"n": 3, "flag": true})", .now = 0});
}

// As generation uses a grammar: the mask of each step, and a token that it allows.
void follow(const std::shared_ptr<const Grammar>& grammar) {
  static const TokenizerPtr tokenizer =
      tokenizer_from_file(TENSORA_TESTS "/llm/tokenizers/gpt2.json");
  GrammarMatcher matcher(grammar, tokenizer);
  std::vector<float> logits(static_cast<size_t>(tokenizer->vocab_size()));
  for (size_t step = 0; step < 8; ++step) {
    std::fill(logits.begin(), logits.end(), 0.f);
    matcher.mask(logits);
    std::vector<Token> allowed;
    for (size_t i = 0; i < logits.size(); ++i)
      if (std::isfinite(logits[i])) allowed.push_back(static_cast<Token>(i));
    if (allowed.empty()) return;
    const Token token = allowed[step * 7919 % allowed.size()];
    ensure(matcher.allows(token), "fuzz: the mask allows token ", token, ", the grammar does not");
    if (tokenizer->is_end_of_generation(token)) return;
    matcher.accept(token);
  }
}

void grammar(std::string_view input) { follow(Grammar::parse(input)); }

std::vector<std::string> grammars() {
  return {
      json_grammar(), "root ::= \"yes\" | \"no\" [.!]{0,3}\n",
      "root ::= a+ # more\na ::= [^\\x00-\\x1f\\u4e00-\\u9fff] | b? .\nb ::= (\"(\" b \")\")*\n",
      "root ::= <[65]> (!<[66]>)* <[66]> (\"ab\" | \"a\" [0-9] | \"abc\")\n"};
}

void json_schema(std::string_view input) { follow(Grammar::parse(json_schema_to_grammar(input))); }

std::vector<std::string> schemas() {
  return {R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 1},
             "age": {"type": "integer", "minimum": 0, "maximum": 150}}, "required": ["name"]})",
          R"({"type": "array", "items": {"enum": ["a", 1, null, true]}, "minItems": 1})",
          R"({"anyOf": [{"const": {"x": 1}}, {"$ref": "#/$defs/d"}],
             "$defs": {"d": {"type": ["number", "null"]}}})",
          R"({"type": "string", "pattern": "^[a-z]{2,4}(-\\d+)?$"})",
          R"({"type": "string", "format": "date-time"})",
          R"({"allOf": [{"type": "number", "minimum": -1.25}, {"exclusiveMaximum": 3}]})",
          R"({"$ref": "#/$defs/e", "minItems": 1, "$defs": {"e": {"items": {"enum": [1, 2, "x"]},
             "uniqueItems": true}}})"};
}

// The first line is the expression, the rest the text.
void pattern(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  const Pattern expression(input.substr(0, end));
  const std::string_view text = input.substr(std::min(end + 1, input.size()));
  Pattern::Memory memory;
  for (size_t at = 0; at < text.size();) {
    const size_t match = expression.match(text, at, memory);
    ensure(match >= at && match <= text.size(), "fuzz: a match ends at ", match);
    at = std::max(match, at + 1);
  }
}

std::vector<std::string> patterns() {
  return {"'s|'t| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+\nIt's 12 o'clock.  ",
          "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s*[\\r\\n]+\nIT'S\n\n12345",
          "[\\p{P}\\$\\+<=>\\^~\\|]+|[a-z\\d]*?x\na+b=c12x"};
}

const Target kTargets[] = {
    {"jinja", jinja, [] { return files_in("llm/templates", ".jinja"); }},
    {"grammar", grammar, grammars},
    {"json_schema", json_schema, schemas},
    {"pattern", pattern, patterns},
};

}  // namespace

std::span<const Target> text_targets() { return kTargets; }

}  // namespace tensora::fuzz
