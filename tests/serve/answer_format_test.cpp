#include "tensora/serve/answer_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "../llm/toy_tokenizer.h"
#include "tensora/base/check.h"
#include "tensora/llm/grammar/grammar_matcher.h"
#include "tensora/serve/answer_parser.h"

namespace tensora::serve {
namespace {

using Kind = AnswerEvent::Kind;

std::string read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

llm::ChatTemplate chat_of(const std::string& name) {
  return {read(TENSORA_TESTS "/llm/templates/" + name + ".jinja"), "<s>", "</s>"};
}

/// All events of an answer, put together.
struct Whole {
  std::string text = {}, reasoning = {};
  std::vector<std::pair<std::string, std::string>> calls = {};
  std::vector<int32_t> text_tokens = {}, reasoning_tokens = {};
  AnswerEnd end = AnswerEnd::stop;
  bool operator==(const Whole&) const = default;
};

Whole parsed(const AnswerFormat& format, const std::vector<llm::Piece>& pieces,
             std::vector<std::string>* ids = nullptr) {
  Whole whole;
  const auto parser = format.parser();
  const auto give = [&](const AnswerEvent& event) {
    switch (event.kind) {
      case Kind::text:
        whole.text += event.text;
        for (const auto& token : event.tokens) whole.text_tokens.push_back(token.token);
        break;
      case Kind::reasoning:
        whole.reasoning += event.text;
        for (const auto& token : event.tokens) whole.reasoning_tokens.push_back(token.token);
        break;
      case Kind::call:
        EXPECT_EQ(event.call, std::ssize(whole.calls));
        whole.calls.emplace_back(event.name, "");
        if (ids) ids->push_back(event.call_id);
        break;
      case Kind::arguments:
        ASSERT_EQ(event.call + 1, std::ssize(whole.calls));
        whole.calls.back().second += event.text;
        break;
      default:
        ADD_FAILURE();
    }
  };
  for (const llm::Piece& piece : pieces) parser->push(llm::Piece(piece), give);
  whole.end = parser->finish({}, give);
  return whole;
}

std::vector<llm::Piece> pieces_of(const std::vector<std::string>& texts,
                                  const llm::Tokenizer& tokenizer) {
  std::vector<llm::Piece> pieces;
  for (const std::string& text : texts) {
    llm::Piece& piece = pieces.emplace_back();
    piece.text = text;
    for (const char c : text)  // a token per byte, whatever the split
      piece.tokens.push_back({.token = tokenizer.find(std::string(1, c)).value(), .logprob = -1});
  }
  return pieces;
}

constexpr const char* kTools = R"([
  {"type":"function","function":{"name":"get_weather","description":"d","parameters":
    {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}},
  {"type":"function","function":{"name":"now"}}])";

AnswerRequest request_of(const char* tools = kTools,
                         ToolUse::Choice choice = ToolUse::Choice::automatic) {
  AnswerRequest request;
  request.request.messages = {{.role = "user", .content = "Hello"}};
  request.tools.tools = tools;
  request.tools.choice = choice;
  return request;
}

const llm::TokenizerPtr& bytes() {
  static const llm::TokenizerPtr tokenizer =
      llm::ToyTokenizer::with_bytes({"<tool_call>", "</think>", "{\"name", "call>\n"});
  return tokenizer;
}

struct Sample {
  const char* chat;
  std::string answer;
  Whole whole;
};

std::pair<std::string, std::string> call(std::string name, std::string arguments) {
  return {std::move(name), std::move(arguments)};
}

std::vector<Sample> tag_samples() {
  const AnswerEnd calls = AnswerEnd::tool_calls;
  return {
      {"qwen3-coder",
       "On "
       "it.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nPa\"r</parameter>\n\n<p\\\xC3"
       "\xA9\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</"
       "tool_call>\n<tool_call>\n"
       "<function=now>\n</function>\n</tool_call>\n",
       {.text = "On it.",
        .calls = {call("get_weather",
                       "{\"city\": \"Pa\\\"r</parameter>\\n\\n<p\\\\\xC3\xA9\", \"days\": 3}"),
                  call("now", "{}")},
        .end = calls}},
      {"qwen3-coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\n\n</parameter>\n</function></"
       "tool_call>",
       {.calls = {call("get_weather", "{\"city\": \"\"}")}, .end = calls}},
      {"qwen3-coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar",
       {.calls = {call("get_weather", "{\"city\": \"Par")}, .end = calls}},
      {"functionary",
       "Hm.<function=get_weather>{\"city\": \"a\"}</function><function=now>{}</function>",
       {.text = "Hm.",
        .calls = {call("get_weather", "{\"city\": \"a\"}"), call("now", "{}")},
        .end = calls}},
      {"nemotron",
       "Hm. <TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"get_weather\", "
       "\"arguments\": {\"city\": \"]\"}}]</TOOLCALL>",
       {.text = "Hm.",
        .calls = {call("now", "{}"), call("get_weather", "{\"city\": \"]\"}")},
        .end = calls}},
  };
}

std::vector<Sample> samples() {
  const std::string begin = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
                    end = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
                    one = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
                    sep = "<\uFF5Ctool\u2581sep\uFF5C>",
                    ends = "<\uFF5Ctool\u2581call\u2581end\uFF5C>";
  const AnswerEnd calls = AnswerEnd::tool_calls;
  std::vector<Sample> all = {
      {"qwen3",
       "Just text, with a < and <tool, and a tail \n",
       {.text = "Just text, with a < and <tool, and a tail \n"}},
      {"qwen3",
       "<think>\nI should\nthink.\n</think>\n\nHello!",
       {.text = "Hello!", .reasoning = "I should\nthink."}},
      {"qwen3", "  <think></think>x", {.text = "x"}},
      {"qwen3", "<think>never ends </thin", {.reasoning = "never ends </thin"}},
      {"qwen3", "<thinking>is text</thinking>", {.text = "<thinking>is text</thinking>"}},
      {"qwen3",
       "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
       {.calls = {call("now", "{}")}, .end = calls}},
      {"qwen3",
       "<think>hm</think>\nOn it.\n<tool_call>\n{\"name\":\"get_weather\",\"arguments\":{\"city\": "
       "\"}\\\"{\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": "
       "{}}\n</tool_call>\n",
       {.text = "On it.",
        .reasoning = "hm",
        .calls = {call("get_weather", "{\"city\": \"}\\\"{\", \"days\": 3}"), call("now", "{}")},
        .end = calls}},
      {"qwen3",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par",
       {.calls = {call("get_weather", "{\"city\": \"Par")}, .end = calls}},
      {"llama3",
       "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"\xC3\xA9\"}}",
       {.calls = {call("get_weather", "{\"city\": \"\xC3\xA9\"}")}, .end = calls}},
      {"llama3",
       " { \"name\" : \"now\", \"parameters\": {}}",
       {.calls = {call("now", "{}")}, .end = calls}},
      {"llama3", "{\"nam\": 1}", {.text = "{\"nam\": 1}"}},
      {"llama3", " text {\"name\": 1}", {.text = " text {\"name\": 1}"}},
      {"mistral",
       "Yes.[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"get_weather\", "
       "\"arguments\": {\"city\": \"]\"}}]",
       {.text = "Yes.",
        .calls = {call("now", "{}"), call("get_weather", "{\"city\": \"]\"}")},
        .end = calls}},
      {"mistral-new",
       "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]get_weather[ARGS]{\"city\": \"\"}",
       {.calls = {call("now", "{}"), call("get_weather", "{\"city\": \"\"}")}, .end = calls}},
      {"deepseek-block",
       "Hm. " + begin + one + "function" + sep + "now\n```json\n{}\n```" + ends + "\n" + one +
           "function" + sep + "get_weather\n```json\n{\"city\":\"a\"}\n```" + ends + end,
       {.text = "Hm.",
        .calls = {call("now", "{}"), call("get_weather", "{\"city\":\"a\"}")},
        .end = calls}},
      {"deepseek-new",
       begin + one + "now" + sep + "{}" + ends + one + "get_weather" + sep + "{\"city\":\"a\"}" +
           ends + end,
       {.calls = {call("now", "{}"), call("get_weather", "{\"city\":\"a\"}")}, .end = calls}},
      {"gemma",
       "Sure. <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
       {.text = "Sure.", .calls = {call("now", "{}")}, .end = calls}},
  };
  for (Sample& sample : tag_samples()) all.push_back(std::move(sample));
  return all;
}

llm::ChatTemplate template_of(const std::string& name) {
  const auto short_one = [](const std::string& marker) {
    return llm::ChatTemplate(
        "{% if tools %}" + marker + "{{ tools }}{% endif %}{{ messages[0].content }}", "", "");
  };
  if (name == "mistral-new") return short_one("[TOOL_CALLS] [ARGS]");
  if (name == "deepseek-block") return short_one("<\uFF5Ctool\u2581call\u2581begin\uFF5C>```json");
  if (name == "deepseek-new") return short_one("<\uFF5Ctool\u2581call\u2581begin\uFF5C>");
  if (name == "qwen3-coder") return short_one("<tool_call><function=<parameter=");
  if (name == "functionary") return short_one("<function=");
  if (name == "nemotron") return short_one("<TOOLCALL>");
  return chat_of(name);
}

TEST(AnswerFormat, EventsDoNotDependOnHowAnAnswerIsCut) {
  for (const Sample& sample : samples()) {
    const llm::ChatTemplate chat = template_of(sample.chat);
    AnswerRequest request = request_of();
    const AnswerFormat format(&chat, bytes(), request);
    const std::string& text = sample.answer;
    const Whole whole = parsed(format, pieces_of({text}, *bytes()));
    Whole plain = whole;
    plain.text_tokens.clear();
    plain.reasoning_tokens.clear();
    EXPECT_EQ(plain, sample.whole) << sample.chat << ": " << text << "\ngot " << plain.text << "|"
                                   << plain.reasoning << "|" << plain.calls.size();
    std::string by_tokens;
    for (const int32_t token : whole.text_tokens) by_tokens += bytes()->bytes_of(token);
    if (whole.calls.empty() && whole.reasoning.empty() && !text.starts_with(" ")) {
      EXPECT_EQ(by_tokens, whole.text);
    }
    std::vector<std::string> letters;
    for (const char c : text) letters.emplace_back(1, c);
    EXPECT_EQ(parsed(format, pieces_of(letters, *bytes())), whole) << text;
    for (size_t i = 0; i <= text.size(); ++i)
      for (size_t j = i; j <= std::min(text.size(), i + 3); ++j)
        ASSERT_EQ(
            parsed(format,
                   pieces_of({text.substr(0, i), text.substr(i, j - i), text.substr(j)}, *bytes())),
            whole)
            << text << " cut at " << i << " and " << j;
  }
}

TEST(AnswerFormat, GrammarAllowsTheSamples) {
  for (const Sample& sample : samples()) {
    const llm::ChatTemplate chat = template_of(sample.chat);
    AnswerRequest request = request_of();
    const AnswerFormat format(&chat, bytes(), request);
    llm::GrammarMatcher matcher(llm::Grammar::parse(request.request.sampling.grammar), bytes());
    for (const char c : sample.answer) {
      const int32_t token = bytes()->find(std::string(1, c)).value();
      ASSERT_TRUE(matcher.allows(token)) << sample.answer << " at " << c;
      matcher.accept(token);
    }
    const bool is_cut = sample.answer.ends_with("Par");
    EXPECT_EQ(matcher.may_end(), !is_cut) << sample.answer;
  }
}

// A control token may stand before a call, at the beginning or behind text.
TEST(AnswerFormat, LlamaLeadsACallWithAToken) {
  const auto tokenizer = llm::ToyTokenizer::with_bytes({}, "<|python_tag|>");
  const llm::ChatTemplate chat = chat_of("llama3");
  AnswerRequest request = request_of();
  const AnswerFormat format(&chat, tokenizer, request);
  EXPECT_TRUE(request.request.shows_special);
  const auto pieces = [&](const std::string& before, const std::string& behind) {
    std::vector<std::string> letters;
    for (const char c : before) letters.emplace_back(1, c);
    std::vector<llm::Piece> all = pieces_of(letters, *tokenizer);
    all.push_back({.text = "<|python_tag|>", .tokens = {{.token = 1, .logprob = -1}}});
    letters.clear();
    for (const char c : behind) letters.emplace_back(1, c);
    for (llm::Piece& piece : pieces_of(letters, *tokenizer)) all.push_back(std::move(piece));
    return all;
  };
  for (const char* text : {"", " ", "I look <|pyth", "I look\n", "{\"nam"}) {
    const auto all = pieces(text, " {\"name\": \"now\", \"parameters\": {}}");
    const Whole whole = parsed(format, all);
    ASSERT_EQ(whole.calls.size(), 1u) << text;
    EXPECT_EQ(whole.calls[0], std::pair(std::string("now"), std::string("{}")));
    EXPECT_EQ(whole.text, text[0] == ' '                      ? ""
                          : text[0] == 'I' && text[6] == '\n' ? "I look"
                                                              : text);
    EXPECT_EQ(whole.end, AnswerEnd::tool_calls);
    llm::GrammarMatcher matcher(llm::Grammar::parse(request.request.sampling.grammar), tokenizer);
    for (const llm::Piece& piece : all) {
      ASSERT_TRUE(matcher.allows(piece.tokens[0].token)) << text << "|" << piece.text;
      matcher.accept(piece.tokens[0].token);
    }
    EXPECT_TRUE(matcher.may_end()) << text;
    // Nothing but a call may follow the token.
    matcher = llm::GrammarMatcher(llm::Grammar::parse(request.request.sampling.grammar), tokenizer);
    matcher.accept(1);
    EXPECT_FALSE(matcher.allows(tokenizer->find("x").value()));
    EXPECT_FALSE(matcher.may_end());
  }
}

TEST(AnswerFormat, ContinuesReasoningOrText) {
  const llm::ChatTemplate chat = chat_of("qwen3");
  const auto answer = [&](const std::string& final) {
    AnswerRequest request = request_of("");
    request.request.messages.push_back({.role = "assistant", .content = final});
    request.request.chat.add_generation_prompt = false;
    request.request.chat.continue_final_message = true;
    const AnswerFormat format(&chat, bytes(), request);
    return parsed(format, pieces_of({"so </think> x"}, *bytes()));
  };
  EXPECT_EQ(answer("Hello").text, "so </think> x");
  EXPECT_EQ(answer("<think>I think ").text, "x");
  EXPECT_EQ(answer("<think>I think ").reasoning, "so");
  EXPECT_EQ(answer("<think>I think</think>Hm").text, "so </think> x");
}

TEST(AnswerFormat, PromptMayHaveBegunTheReasoning) {
  const llm::ChatTemplate chat("{{ messages[0].content }}<think>\n", "", "");
  AnswerRequest request = request_of("");
  const AnswerFormat format(&chat, bytes(), request);
  const Whole whole = parsed(format, pieces_of({"\nI think </think>\n so"}, *bytes()));
  EXPECT_EQ(whole.reasoning, "I think");
  EXPECT_EQ(whole.text, "so");
  EXPECT_EQ(whole.reasoning_tokens.size(), std::string("\nI think </think>\n ").size());
  EXPECT_EQ(whole.text_tokens.size(), 2u);

  AnswerRequest raw = request_of("");
  raw.splits_reasoning = false;
  const AnswerFormat as_it_is(&chat, bytes(), raw);
  EXPECT_EQ(parsed(as_it_is, pieces_of({"a</think>b"}, *bytes())).text, "a</think>b");
}

TEST(AnswerFormat, SwitchedOffReasoningIsNotLookedFor) {
  const llm::ChatTemplate chat = chat_of("qwen3");
  AnswerRequest request = request_of("");
  request.request.chat.variables = R"({"enable_thinking": false})";
  const AnswerFormat format(&chat, bytes(), request);
  EXPECT_EQ(parsed(format, pieces_of({"<think>x"}, *bytes())).text, "<think>x");
}

TEST(AnswerFormat, NoCallsWithoutLeave) {
  const llm::ChatTemplate chat = chat_of("qwen3");
  AnswerRequest request = request_of(kTools, ToolUse::Choice::none);
  const AnswerFormat format(&chat, bytes(), request);
  EXPECT_TRUE(request.request.chat.tools.empty());
  EXPECT_TRUE(request.request.sampling.grammar.empty());
  EXPECT_TRUE(
      parsed(format, pieces_of({"<tool_call>\n{\"name\": \"now\""}, *bytes())).calls.empty());
}

TEST(AnswerFormat, IdsAreUniqueAndFitTheTemplate) {
  for (const auto& [name, length] : {std::pair("qwen3", 29u), std::pair("mistral-new", 9u)}) {
    const llm::ChatTemplate chat = template_of(name);
    AnswerRequest request = request_of();
    const AnswerFormat format(&chat, bytes(), request);
    std::vector<std::string> ids;
    for (const Sample& sample : samples())
      if (sample.chat == std::string(name))
        parsed(format, pieces_of({sample.answer}, *bytes()), &ids);
    ASSERT_GE(ids.size(), 2u);
    for (const std::string& id : ids) EXPECT_EQ(id.size(), length);
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
  }
}

ApiError error_of(AnswerRequest request) {
  const llm::ChatTemplate chat = chat_of("qwen3");
  try {
    const AnswerFormat format(&chat, bytes(), request);
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {0, ""};
}

TEST(AnswerFormat, MistakesAreNamed) {
  const ApiError keyword = error_of(request_of(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":
         {"x":{"type":"array","unevaluatedItems":false}}}}}])"));
  EXPECT_EQ(keyword.status, 400);
  EXPECT_EQ(keyword.param, "tools[0].function.parameters.properties.x");
  EXPECT_EQ(std::string(keyword.what()),
            "tools[0].function.parameters.properties.x: the keyword unevaluatedItems is not "
            "supported here");
  const llm::ChatTemplate tags = template_of("qwen3-coder");
  AnswerRequest any = request_of(
      R"([{"type":"function","function":{"name":"f","parameters":{"anyOf":[{"type":"object"}]}}}])");
  try {
    const AnswerFormat format(&tags, bytes(), any);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.code, "unsupported_schema");
    EXPECT_NE(std::string(error.what()).find("tools[0].function.parameters: the keyword anyOf"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(error_of(request_of("[{\"type\":\"function\"}]")).param, "tools[0].function");
  EXPECT_EQ(error_of(request_of("[]", ToolUse::Choice::required)).param, "tool_choice");
  AnswerRequest named = request_of(kTools, ToolUse::Choice::named);
  named.tools.name = "nobody";
  EXPECT_EQ(error_of(named).param, "tool_choice");
  AnswerRequest schema = request_of("");
  schema.request.sampling.json_schema = R"({"type":"object","properties":{"a":{"not":{}}}})";
  EXPECT_EQ(error_of(schema).param, "response_format.json_schema.schema.properties.a");
}

TEST(AnswerFormat, TemplatesWithoutToolsAreToldInMessages) {
  const llm::ChatTemplate chat = chat_of("gemma");
  AnswerRequest request = request_of();
  request.request.messages = {
      {.role = "user", .content = "Hello"},
      {.role = "assistant", .tool_calls = {{.id = "1", .name = "now", .arguments = "{}"}}},
      {.role = "tool", .content = "12:00", .tool_call_id = "1"}};
  const AnswerFormat format(&chat, bytes(), request);
  const std::string prompt = chat.render(request.request.messages, request.request.chat);
  EXPECT_NE(prompt.find("get_weather"), std::string::npos);
  EXPECT_NE(prompt.find("<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"),
            std::string::npos);
  EXPECT_NE(prompt.find("<tool_response>\n12:00\n</tool_response>"), std::string::npos);
}

}  // namespace
}  // namespace tensora::serve
