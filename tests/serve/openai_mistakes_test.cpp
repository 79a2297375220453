#include "openai_toy.h"
#include "scripted_service.h"
#include "tensora/serve/anthropic_routes.h"
#include "tensora/serve/ollama_routes.h"
#include "tensora/serve/responses_routes.h"

namespace tensora::serve {
namespace {

using namespace testing;

constexpr const char* kChat = "/v1/chat/completions";

class MistakeTest : public OpenAiTest {
 protected:
  // What the error says is wrong when a field of a good request has this value.
  std::string param(const std::string& name, const std::string& value) {
    Json body = chat("AB", 3);
    body[name] = Json::parse(value);
    const Json param = refused(kChat, body)["param"];
    return param.is_null() ? "none" : param.get<std::string>();
  }
};

TEST_F(MistakeTest, NamesTheNumberThatIsWrong) {
  start();
  const std::vector<std::pair<const char*, std::vector<const char*>>> bad = {
      {"temperature", {"-0.1", "2.1", "1e308", "\"1\"", "[]", "true"}},
      {"top_p", {"-0.1", "1.1", "{}"}},
      {"top_k", {"-2", "1.5", "99999999999999999999", "\"all\""}},
      {"min_p", {"-1", "2"}},
      {"typical_p", {"-1", "2"}},
      {"top_n_sigma", {"-2", "1e300"}},
      {"repetition_penalty", {"0", "-1", "1e300"}},
      {"repeat_penalty", {"0", "-1"}},
      {"repeat_last_n", {"-2", "1e10"}},
      {"presence_penalty", {"-2.1", "2.1"}},
      {"frequency_penalty", {"-2.1", "2.1"}},
      {"dry_multiplier", {"-1"}},
      {"dry_base", {"0.5"}},
      {"dry_allowed_length", {"0"}},
      {"dry_penalty_last_n", {"-2"}},
      {"xtc_probability", {"-1", "1.5"}},
      {"xtc_threshold", {"-1", "1.5"}},
      {"mirostat", {"3", "-1"}},
      {"mirostat_tau", {"-1"}},
      {"mirostat_eta", {"-1"}},
      {"seed", {"1.5", "18446744073709551615", "\"7\""}},
      {"max_tokens", {"0", "-1", "1.5", "\"many\""}},
      {"max_completion_tokens", {"0", "-5"}},
      {"n", {"0", "-1", "129", "1000000", "1e18", "1.5"}},
      {"top_logprobs", {"21", "-1", "5"}},  // without logprobs
      {"logprobs", {"5", "\"yes\""}},
      {"stream", {"1", "\"true\""}},
      {"min_tokens", {"21", "-1", "1.5"}},  // of at most 20
      {"stop", {"5", "{}"}},
      {"logit_bias", {"5", "\"x\""}},
      {"grammar", {"5", "{}"}},
      {"response_format", {"5", "\"json\""}},
      {"tool_choice", {"5", "\"any\"", "\"required\""}},
      {"tools", {"5", "{}"}},
      {"functions", {"[]"}},
      {"audio", {"{}"}},
      {"documents", {"[]"}},
      {"chat_template", {"\"{{ 1 }}\"", "5"}},  // strangers' templates are not run
      {"guided_json", {"{}"}},
      {"guided_choice", {"[\"a\"]"}},
      {"structured_outputs", {"{}"}},
      {"json_schema", {"{}"}},
      {"stop_token_ids", {"5", "[48]"}},  // of a vocabulary of 48
      {"continue_final_message", {"5", "\"yes\""}},
      {"add_generation_prompt", {"5", "\"yes\""}},
      {"reasoning_effort", {"\"huge\"", "5"}},
      {"chat_template_kwargs", {"5", "[]"}},
      {"messages", {"5", "[]", "\"hi\"", "{}"}},
      {"model", {"5"}},
      {"stream_options", {"{}", "5"}},  // without stream
  };
  for (const auto& [name, values] : bad)
    for (const char* value : values) EXPECT_EQ(param(name, value), name) << value;
}

TEST_F(MistakeTest, NamesThePathOfWhatIsWrongInside) {
  start();
  const auto in = [](const std::string& message) { return "[" + message + "]"; };
  EXPECT_EQ(param("messages", in("5")), "messages[0]");
  EXPECT_EQ(param("messages", in(R"({"content":"A"})")), "messages[0].role");
  EXPECT_EQ(param("messages", in(R"({"role":null,"content":"A"})")), "messages[0].role");
  EXPECT_EQ(param("messages", in(R"({"role":"admin","content":"A"})")), "messages[0].role");
  EXPECT_EQ(param("messages", in(R"({"role":"user"})")), "messages[0].content");
  EXPECT_EQ(param("messages", in(R"({"role":"user","content":5})")), "messages[0].content");
  EXPECT_EQ(
      param("messages", in(R"({"role":"user","content":[{"type":"image_url","image_url":"x"}]})")),
      "messages[0].content[0].type");
  EXPECT_EQ(param("messages", in(R"({"role":"user","content":[{"type":"text"}]})")),
            "messages[0].content[0].text");
  EXPECT_EQ(param("messages", in(R"({"role":"assistant","tool_calls":[{"function":{}}]})")),
            "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(param("messages", in(R"({"role":"assistant","tool_calls":
                [{"function":{"name":"f","arguments":"{"}}]})")),
            "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(param("logit_bias", R"({"5": 101})"), "logit_bias.5");
  EXPECT_EQ(param("logit_bias", R"({"x": 1})"), "logit_bias.x");
  EXPECT_EQ(param("logit_bias", R"({"-1": 1})"), "logit_bias.-1");
  EXPECT_EQ(param("logit_bias", R"([[5, 1], [5]])"), "logit_bias[1]");
  EXPECT_EQ(param("stop", R"(["a", ""])"), "stop[1]");
  EXPECT_EQ(param("stop_token_ids", "[1, -1]"), "stop_token_ids[1]");
  EXPECT_EQ(param("dry_sequence_breakers", R"(["a", ""])"), "dry_sequence_breakers[1]");
  EXPECT_EQ(param("response_format", R"({"type":"xml"})"), "response_format.type");
  EXPECT_EQ(param("response_format", R"({"type":"json_schema"})"), "response_format.json_schema");
  EXPECT_EQ(param("response_format", R"({"type":"json_schema","json_schema":{}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(param("tools", R"([{"type":"web_search"}])"), "tools[0].type");
  EXPECT_EQ(param("tools", R"([{"type":"function","function":{"name":"a b"}}])"),
            "tools[0].function.name");
  EXPECT_EQ(param("chat_template_kwargs", R"({"a":[]})"), "chat_template_kwargs.a");
  EXPECT_EQ(param("chat_template_kwargs", R"({"messages":"x"})"), "chat_template_kwargs.messages");
  EXPECT_EQ(param("modalities", R"(["text","audio"])"), "modalities[1]");
  std::string many = "{";
  for (int i = 0; i < 2000; ++i) many += concat(i ? "," : "", "\"", i, "\":1");
  EXPECT_EQ(param("logit_bias", many + "}"), "logit_bias");
}

TEST_F(MistakeTest, WhatIsLargeIsBounded) {
  start();
  // As many tokens as the context has room for, however many are asked for.
  Json body = chat("AB", 1000000000);
  body["ignore_eos"] = true;
  const Json answer = OpenAiTest::answer(kChat, body);
  EXPECT_EQ(answer["usage"]["total_tokens"], 256);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  const Json error = refused(kChat, chat(std::string(5000, 'A')));
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["param"], "messages");
  // NaN and infinity are not JSON.
  for (const char* text : {"NaN", "Infinity", "1e999", "-1e999"}) {
    const auto reply =
        ask(*router, "POST", kChat,
            concat(R"({"messages":[{"role":"user","content":"A"}],"temperature":)", text, "}"));
    EXPECT_EQ(reply->wait().status, 400) << text;
  }
  // What the template does not like is the messages' fault.
  EXPECT_EQ(refused(kChat, chat("zzz"))["param"], "messages");
}

// Only the sampler can tell, while the answer is computed.
TEST_F(MistakeTest, ForbidsNotAllTokens) {
  start();
  Json body = chat("AB", 3);
  for (int i = 0; i < toy::kVocabulary; ++i) body["logit_bias"][std::to_string(i)] = -100;
  const Json error = refused(kChat, body);
  EXPECT_NE(error["message"].get<std::string>().find("forbids all tokens"), std::string::npos)
      << error;
  body["stream"] = true;
  EXPECT_EQ(post(kChat, body)->wait().status, 400);
  body["logit_bias"].erase("5");
  EXPECT_EQ(post(kChat, body)->wait().status, 200);
}

TEST_F(MistakeTest, TellsWhatItIgnores) {
  start();
  Json body = chat("AB", 3);
  body["frobnicate"] = 1;
  body["wibble\n"] = 2;
  body["user"] = "me";
  body["top_a"] = nullptr;
  const HttpResponse response = post(kChat, body)->wait();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(header_of(response, "x-tensora-ignored"), "frobnicate, wibble?");
  body["stream"] = true;
  EXPECT_EQ(header_of(post(kChat, body)->wait(), "x-tensora-ignored"), "frobnicate, wibble?");
}

TEST_F(MistakeTest, TellsWhatItIgnoresInside) {
  start();
  Json body = chat("AB", 3);
  body["messages"] = Json::parse(R"([{"role": "user", "mood": "good", "content": [
      {"type": "text", "text": "A", "font": 1, "cache_control": {"type": "ephemeral"}}]},
      {"role": "assistant", "content": "B", "annotations": [], "audio": null}])");
  body["response_format"] = {{"type", "text"}, {"json_schema", Json::object()}};
  body["chat_template_kwargs"] = {{"any", 1}};
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}, {"every", 5}};
  body["frobnicate"] = 1;
  EXPECT_EQ(header_of(post(kChat, body)->wait(), "x-tensora-ignored"),
            "frobnicate, messages[0].content[0].font, messages[0].mood, "
            "response_format.json_schema, stream_options.every");
  // The header stays short.
  body["messages"] = Json::array();
  for (int i = 0; i < 200; ++i)
    body["messages"].push_back(
        {{"role", "user"}, {"content", "A"}, {"mood" + std::to_string(i), 1}});
  const std::string header = header_of(post(kChat, body)->wait(), "x-tensora-ignored");
  EXPECT_LT(header.size(), 1200u);
  EXPECT_TRUE(header.ends_with(", ...")) << header;
  EXPECT_EQ(param("messages", R"([{"role": "assistant", "function_call": {"name": "f"}}])"),
            "messages[0].function_call");
}

// What clients send back from an answer, and hints for the cache, are no surprise.
TEST(MistakesInDialects, TellWhatTheyIgnoreInside) {
  ScriptedService service;
  service.text = "x";
  Router router;
  add_anthropic_routes(router, service);
  add_responses_routes(router, service);
  add_ollama_routes(router, service);
  const auto ignored = [&](const char* path, const char* body) {
    const HttpResponse response = ask(router, "POST", path, body)->wait();
    EXPECT_EQ(response.status, 200) << response.body;
    return header_of(response, "x-tensora-ignored");
  };
  EXPECT_EQ(ignored("/v1/messages", R"({"max_tokens": 5, "mood": 1,
      "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
      "messages": [{"role": "user", "content": "x"},
                   {"role": "assistant", "content": [
                       {"type": "thinking", "thinking": "x", "signature": ""},
                       {"type": "text", "text": "x", "citations": null}]},
                   {"role": "user", "content": [{"type": "text", "text": "x", "size": 5}]}],
      "output_config": {"effort": "high"}})"),
            "mood, messages[2].content[0].size, output_config.effort");
  EXPECT_EQ(ignored("/v1/responses", R"({"input": [
      {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
          {"type": "output_text", "text": "x", "annotations": [], "logprobs": []}]},
      {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null,
       "content": [{"type": "reasoning_text", "text": "x"}]},
      {"role": "user", "content": "x", "mood": "good"}],
      "include": ["reasoning.encrypted_content"]})"),
            "include[0], input[2].mood");
  EXPECT_EQ(ignored("/api/chat", R"({"messages": [{"role": "user", "content": "x", "mood": 1},
      {"role": "assistant", "content": "", "tool_calls": [
          {"id": "1", "type": "function", "function": {"index": 0, "name": "f", "arguments": {}}}]},
      {"role": "tool", "content": "x", "tool_name": "f"}], "stream": false})"),
            "messages[0].mood");
}

TEST(CompletionFormat, IsNotIgnored) {
  ScriptedService service;
  service.text = "true";
  Router router;
  add_openai_completion_routes(router, service);
  Json body = {{"prompt", "x"},
               {"response_format",
                {{"type", "json_schema"},
                 {"json_schema", {{"name", "s"}, {"schema", {{"type", "boolean"}}}}}}}};
  EXPECT_EQ(ask(router, "POST", "/v1/completions", body.dump())->wait().status, 200);
  EXPECT_EQ(service.last.request.sampling.json_schema, R"({"type":"boolean"})");
  body["response_format"]["json_schema"]["schema"] = {{"unevaluatedItems", false}};
  const HttpResponse response = ask(router, "POST", "/v1/completions", body.dump())->wait();
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("unevaluatedItems"), std::string::npos) << response.body;
}

TEST_F(MistakeTest, UsesWhatItDoesNotIgnore) {
  start();
  const std::string plain = answer(kChat, chat("AB", 12))["choices"][0]["message"]["content"];
  Json body = chat("AB", 12);
  body["stop"] = plain.substr(3, 2);
  const Json stopped = answer(kChat, body)["choices"][0];
  EXPECT_EQ(stopped["message"]["content"], plain.substr(0, plain.find(plain.substr(3, 2))));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  body = chat("AB", 12);
  const int token = plain[0] - 'A' + toy::kFirstLetter;
  body["logit_bias"] = {{std::to_string(token), -100}};
  EXPECT_NE(answer(kChat, body)["choices"][0]["message"]["content"].get<std::string>()[0],
            plain[0]);
  body = chat("AB", 12);
  body["stop_token_ids"] = {token};
  EXPECT_EQ(answer(kChat, body)["usage"]["completion_tokens"], 1);
  body = chat("AB", 12);
  body["messages"] = {
      {{"role", "developer"}, {"content", "A"}},
      {{"role", "user"}, {"content", Json::array({{{"type", "text"}, {"text", "B"}}})}}};
  EXPECT_EQ(answer(kChat, body)["choices"][0]["message"]["content"], plain);
  body["max_completion_tokens"] = 2;
  EXPECT_EQ(answer(kChat, body)["usage"]["completion_tokens"], 2);
}

}  // namespace
}  // namespace tensora::serve
