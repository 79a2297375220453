// Answers of models that know nothing: whatever a random model would write, what the grammars let
// through are calls and texts that fit their schemas.

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

#include "../llm/toy_tokenizer.h"
#include "../processor_time.h"
#include "schema_validator.h"
#include "tensora/base/check.h"
#include "tensora/llm/grammar/grammar_cache.h"
#include "tensora/serve/answer_format.h"
#include "tensora/serve/answer_metrics.h"
#include "tensora/serve/json_fields.h"

namespace tensora::serve {
namespace {

using Choice = ToolUse::Choice;
using tensora::testing::ProcessorTime;
using testing::SchemaValidator;

Json corpus() {
  std::ifstream file(TENSORA_TESTS "/serve/schemas.json");
  return Json::parse(file);
}

const llm::TokenizerPtr& tokenizer() {
  static const llm::TokenizerPtr made = llm::ToyTokenizer::with_bytes(
      {"<tool_call>", "</tool_call>", "</think>", "{\"", "\":", "\"}", "\", \"", "true", "null",
       " 12", "name", "arguments", "city", "\xC3\xA9", "\"}}\n</tool_call>", "\n</parameter>"});
  return made;
}

// What a model without any idea writes: any of the allowed tokens, and the end rather soon.
std::string random_answer(const llm::SamplingOptions& sampling, std::mt19937& random) {
  llm::GrammarMatcher matcher = llm::cached_matcher(sampling.grammar, tokenizer());
  std::string answer;
  std::vector<float> logits(static_cast<size_t>(tokenizer()->vocab_size()));
  for (int step = 0; step < 4000; ++step) {
    std::fill(logits.begin(), logits.end(), 0.f);
    matcher.mask(logits);
    std::vector<int32_t> allowed, closing;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!std::isfinite(logits[i])) continue;
      const auto token = static_cast<int32_t>(i);
      allowed.push_back(token);
      const std::string& bytes = tokenizer()->bytes_of(token);
      if (bytes.empty() || bytes == "\"" || bytes == "}" || bytes == "]" || bytes == "</think>" ||
          bytes == "\n</parameter>")
        closing.push_back(token);
    }
    EXPECT_FALSE(allowed.empty()) << answer;
    if (allowed.empty()) break;
    const auto& from = !closing.empty() && random() % 3 == 0 ? closing : allowed;
    const int32_t token = from[random() % from.size()];
    if (tokenizer()->is_end_of_generation(token)) return answer;
    matcher.accept(token);
    answer += tokenizer()->bytes_of(token);
  }
  ADD_FAILURE() << "the answer does not end: " << answer;
  return answer;
}

Answer parsed(const AnswerFormat& format, const std::string& text) {
  Answer answer;
  const auto parser = format.parser();
  const auto give = [&](const AnswerEvent& event) {
    if (event.kind == AnswerEvent::Kind::text) answer.text += event.text;
    if (event.kind == AnswerEvent::Kind::reasoning) answer.reasoning += event.text;
    if (event.kind == AnswerEvent::Kind::call)
      answer.calls.push_back({.id = event.call_id, .name = event.name});
    if (event.kind == AnswerEvent::Kind::arguments) answer.calls.back().arguments += event.text;
  };
  parser->push({.text = text, .tokens = {}}, give);
  answer.end = parser->finish({}, give);
  return answer;
}

llm::ChatTemplate template_with(const std::string& marker) {
  return {
      concat("{% if tools %}", marker, "{{ tools | tojson }}{% endif %}{{ messages[0].content }}"),
      "", ""};
}

const std::vector<std::string> kMarkers = {"<tool_call>",
                                           "[TOOL_CALLS]",
                                           "[TOOL_CALLS] [ARGS]",
                                           "<|python_tag|>",
                                           "<tool_call> <think> </think>",
                                           "<tool_call> <function= <parameter=",
                                           "<function=",
                                           "<TOOLCALL>",
                                           "<\uFF5Ctool\u2581call\u2581begin\uFF5C>"};

AnswerRequest request_of(const Json& schemas, Choice choice) {
  AnswerRequest request;
  request.request.messages = {{.role = "user", .content = "Hello"}};
  Json tools = Json::array();
  for (size_t i = 0; i < schemas.size(); ++i)
    tools.push_back({{"type", "function"},
                     {"function", {{"name", concat("tool_", i)}, {"parameters", schemas[i]}}}});
  request.tools.tools = tools.dump();
  request.tools.choice = choice;
  return request;
}

TEST(ConstrainedAnswers, CallsFitTheirSchemas) {
  const Json schemas = corpus();
  ASSERT_GE(schemas.size(), 40u);
  std::mt19937 random(5);
  std::set<std::string> called;
  for (size_t i = 0; i < schemas.size(); ++i) {
    const llm::ChatTemplate chat = template_with(kMarkers[i % kMarkers.size()]);
    AnswerRequest request = request_of(schemas, Choice::named);
    request.tools.name = concat("tool_", i);
    const AnswerFormat format(&chat, tokenizer(), request);
    for (int round = 0; round < 6; ++round) {
      const std::string text = random_answer(request.request.sampling, random);
      const Answer answer = parsed(format, text);
      ASSERT_GE(answer.calls.size(), 1u) << text;
      EXPECT_EQ(answer.text, "") << text;
      EXPECT_EQ(answer.end, AnswerEnd::tool_calls);
      for (const llm::ToolCall& call : answer.calls) {
        EXPECT_EQ(call.name, request.tools.name);
        EXPECT_TRUE(SchemaValidator(schemas[i]).fits(Json::parse(call.arguments)))
            << schemas[i] << "\n"
            << call.arguments;
      }
    }
  }
}

TEST(ConstrainedAnswers, RequiredAndAutomaticCallsFitWhateverToolIsChosen) {
  const Json schemas = corpus();
  std::mt19937 random(6);
  std::set<std::string> called;
  size_t texts = 0;
  for (const Choice choice : {Choice::required, Choice::automatic})
    for (const std::string& marker : kMarkers) {
      const llm::ChatTemplate chat = template_with(marker);
      AnswerRequest request = request_of(schemas, choice);
      request.tools.parallel = false;
      const AnswerFormat format(&chat, tokenizer(), request);
      for (int round = 0; round < 12; ++round) {
        const std::string text = random_answer(request.request.sampling, random);
        const Answer answer = parsed(format, text);
        EXPECT_LE(answer.calls.size(), 1u) << text;
        texts += answer.calls.empty();
        EXPECT_TRUE(choice == Choice::automatic || !answer.calls.empty()) << text;
        for (const llm::ToolCall& call : answer.calls) {
          called.insert(call.name);
          const size_t number = std::stoul(call.name.substr(5));
          EXPECT_TRUE(SchemaValidator(schemas[number]).fits(Json::parse(call.arguments)))
              << call.arguments;
        }
      }
    }
  EXPECT_GE(called.size(), 20u);
  EXPECT_GE(texts, 10u);
}

TEST(ConstrainedAnswers, TextsFitTheirSchemaBehindReasoning) {
  std::mt19937 random(7);
  const llm::ChatTemplate chat("{{ messages[0].content }}<think>", "", "");
  size_t thoughts = 0;
  for (const Json& schema : corpus()) {
    AnswerRequest request;
    request.request.messages = {{.role = "user", .content = "Hello"}};
    request.request.sampling.json_schema = schema.dump();
    const AnswerFormat format(&chat, tokenizer(), request);
    for (int round = 0; round < 4; ++round) {
      const std::string text = random_answer(request.request.sampling, random);
      const Answer answer = parsed(format, text);
      thoughts += answer.reasoning.empty() ? 0 : 1;
      EXPECT_TRUE(SchemaValidator(schema).fits(Json::parse(answer.text))) << schema << "\n"
                                                                          << answer.text;
    }
  }
  EXPECT_GE(thoughts, 40u);
}

// 58 tools with 100 kB of schemas: compiled within seconds, once.
TEST(ConstrainedAnswers, ManyToolsWithLargeSchemas) {
  Json schemas = Json::array();
  for (int tool = 0; tool < 58; ++tool) {
    Json properties = Json::object();
    for (int i = 0; i < 20; ++i)
      properties[concat("property_", tool, "_", i)] = {
          {"type", i % 3 == 0   ? "string"
                   : i % 3 == 1 ? "integer"
                                : "boolean"},
          {"description", "A description of some words, as tools have them, to fill the space."}};
    schemas.push_back({{"type", "object"},
                       {"properties", properties},
                       {"required", {concat("property_", tool, "_0")}}});
  }
  ASSERT_GE(schemas.dump().size(), 100'000u);
  const llm::ChatTemplate chat = template_with("<tool_call>");
  const auto make = [&] {
    AnswerRequest request = request_of(schemas, Choice::automatic);
    const AnswerFormat format(&chat, tokenizer(), request);
    return request.request.sampling;
  };
  const ProcessorTime time;
  const llm::SamplingOptions sampling = make();
  EXPECT_LT(time.seconds(), 5);
  const llm::GrammarCacheStats before = llm::grammar_cache_stats();
  EXPECT_EQ(make().grammar, sampling.grammar);
  const llm::GrammarCacheStats after = llm::grammar_cache_stats();
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_EQ(after.hits, before.hits + 1);
  EXPECT_NE(prometheus_text({}, {}).find(concat("tensora_grammar_cache_hits_total ", after.hits)),
            std::string::npos);
  std::mt19937 random(8);
  for (int i = 0; i < 5; ++i) random_answer(sampling, random);
}

// Errors are about what the client wrote, not about the grammar that was made of it.
TEST(ConstrainedAnswers, RefusesInTheClientsWords) {
  const auto refused = [](const llm::ChatTemplate& chat, AnswerRequest request) {
    try {
      const AnswerFormat format(&chat, tokenizer(), request);
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(std::string(error.what()).find(" line "), std::string::npos) << error.what();
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return ApiError(0, "");
  };
  const auto with_text = [](const Json& schema) {
    AnswerRequest request;
    request.request.messages = {{.role = "user", .content = "Hello"}};
    request.request.sampling.json_schema = schema.dump();
    return request;
  };
  const Json circle = Json::array({{{"$ref", "#/$defs/a"}}, {{"type", "null"}}});
  const Json object = {{"type", "object"},
                       {"properties", {{"x", {{"$ref", "#/$defs/a"}}}}},
                       {"required", {"x"}},
                       {"$defs", {{"a", {{"anyOf", circle}}}}}};
  const auto expect = [](const ApiError& error, const std::string& param) {
    EXPECT_EQ(error.param, param);
    EXPECT_EQ(error.code, "unsupported_schema");
    EXPECT_NE(std::string(error.what()).find("the keyword $ref"), std::string::npos)
        << error.what();
  };
  for (const char* source : {"{{ messages[0].content }}", "{{ messages[0].content }}<think>"})
    expect(refused(llm::ChatTemplate(source, "", ""), with_text(object)),
           "response_format.json_schema.schema");
  const llm::ChatTemplate tools = template_with("<tool_call>");
  expect(refused(tools, request_of(Json::array({object}), Choice::required)), "tools");
  // A grammar of the client's own has lines.
  AnswerRequest own = with_text(true);
  own.request.sampling.json_schema.clear();
  own.request.sampling.grammar = "root ::= nothing";
  try {
    const AnswerFormat format(&tools, tokenizer(), own);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ApiError& mistake) {
    EXPECT_TRUE(std::string_view(mistake.what()).starts_with("grammar: line 1")) << mistake.what();
    EXPECT_EQ(mistake.param, "grammar");
  }
}

// A schema bomb is refused while the request is read.
TEST(ConstrainedAnswers, HostileSchemasEndSoon) {
  // Each definition names the next one twice: 2^40 ways to go down.
  Json definitions = Json::object();
  for (int i = 0; i < 40; ++i) {
    const Json next = {{"$ref", concat("#/$defs/d", i + 1)}};
    definitions[concat("d", i)] = {
        {"anyOf", Json::array({next, {{"allOf", Json::array({next})}}})}};
  }
  definitions["d40"] = {{"type", "integer"}};
  const auto with = [](const Json& property) {
    return Json{{"type", "object"}, {"properties", {{"x", property}}}, {"required", {"x"}}};
  };
  Json nested = with({{"$ref", "#/$defs/d0"}});
  nested["$defs"] = definitions;
  const Json text = {{"type", "string"}, {"minLength", 90'000}, {"maxLength", 90'000}};
  Json lists = text;
  for (int i = 0; i < 3; ++i)
    lists = {{"type", "array"}, {"items", lists}, {"minItems", 90'000}, {"maxItems", 90'000}};
  for (const Json& schema : {nested, with(text), with(lists),
                             with({{"type", "string"}, {"pattern", "^(a|b|ab)*(a|aa|b)*c$"}})}) {
    const llm::ChatTemplate chat = template_with("<tool_call>");
    AnswerRequest request = request_of(Json::array({schema}), Choice::required);
    const ProcessorTime time;
    try {
      const AnswerFormat format(&chat, tokenizer(), request);
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
    }
    EXPECT_LT(time.seconds(), 10);
  }
}

}  // namespace
}  // namespace tensora::serve
