#include <gtest/gtest.h>

#include <map>

#include "scripted_service.h"
#include "tensora/serve/anthropic_routes.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/ollama_routes.h"
#include "tensora/serve/openai_routes.h"
#include "tensora/serve/responses_routes.h"

namespace tensora::serve {
namespace {

using namespace testing;

constexpr const char* kCalls =
    "<think>\nhm\n</think>\n\nOn it.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 1, "
    "\"a\": [2]}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

const Json kSchema = {{"type", "object"},
                      {"properties", {{"b", {{"type", "integer"}}}, {"a", {{"type", "array"}}}}}};
const Json kUser = Json::array({{{"role", "user"}, {"content", "Hello"}}});

/// A server-sent event with its name.
struct Named {
  std::string name;
  Json data;
};

std::vector<Named> named_events(const std::string& body) {
  std::vector<Named> events;
  for (size_t at = 0; at < body.size();) {
    const size_t line = body.find('\n', at), end = body.find("\n\n", at);
    EXPECT_EQ(body.compare(at, 7, "event: "), 0);
    EXPECT_EQ(body.compare(line + 1, 6, "data: "), 0);
    events.push_back(
        {body.substr(at + 7, line - at - 7), Json::parse(body.substr(line + 7, end - line - 7))});
    EXPECT_EQ(events.back().data.value("type", ""), events.back().name);
    at = end + 2;
  }
  return events;
}

class Dialects : public ::testing::Test {
 protected:
  Dialects() {
    add_anthropic_routes(router, service);
    add_openai_chat_routes(router, service);
    add_responses_routes(router, service);
    add_ollama_routes(router, service);
    add_llama_routes(router, service);
    service.text = kCalls;
  }
  HttpResponse post(const std::string& path, const Json& body) {
    return ask(router, "POST", path, body.dump())->wait();
  }
  Json answer(const std::string& path, const Json& body) {
    const HttpResponse response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  Json refused(const std::string& path, const Json& body, int status = 400) {
    const HttpResponse response = post(path, body);
    EXPECT_EQ(response.status, status) << body << response.body;
    return Json::parse(response.body);
  }

  ScriptedService service;
  Router router;
};

Json without_ids(Json json) {
  if (json.is_object())
    for (const char* name : {"id", "item_id", "call_id", "created_at"}) json.erase(name);
  if (json.is_structured())
    for (Json& part : json) part = without_ids(part);
  return json;
}

// ---- Anthropic ---------------------------------------------------------------------------------

Json message_body() {
  return {{"model", "toy"},
          {"max_tokens", 100},
          {"messages", kUser},
          {"tools", Json::array({{{"name", "add"}, {"input_schema", kSchema}},
                                 {{"type", "web_search_20250305"}, {"name", "web_search"}},
                                 {{"name", "now"}, {"input_schema", {{"type", "object"}}}}})}};
}

// A message from its events, as Anthropic's clients put it together.
Json message_of(const std::vector<Named>& events) {
  Json message;
  std::string json;
  for (const auto& [name, data] : events) {
    if (name == "message_start") message = data["message"];
    if (name == "content_block_start") {
      EXPECT_EQ(data["index"], message["content"].size());
      message["content"].push_back(data["content_block"]);
      json.clear();
    }
    if (name == "content_block_delta") {
      EXPECT_EQ(data["index"], message["content"].size() - 1);
      Json& block = message["content"].back();
      const Json& delta = data["delta"];
      for (const char* field : {"text", "thinking"})
        if (delta.contains(field))
          block[field] = block[field].get<std::string>() + delta[field].get<std::string>();
      if (delta.contains("partial_json")) json += delta["partial_json"].get<std::string>();
    }
    if (name == "content_block_stop" && !json.empty())
      message["content"].back()["input"] = Json::parse(json);
    if (name == "message_delta") {
      message.update(data["delta"]);
      message["usage"].update(data["usage"]);
    }
  }
  return message;
}

TEST_F(Dialects, AnthropicStreamIsTheMessage) {
  Json body = message_body();
  const Json whole = answer("/v1/messages", body);
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  ASSERT_EQ(whole["content"].size(), 4u);
  EXPECT_EQ(whole["content"][0]["thinking"], "hm");
  EXPECT_EQ(whole["content"][1]["text"], "On it.");
  EXPECT_EQ(whole["content"][2]["input"].dump(), R"({"b":1,"a":[2]})");
  body["stream"] = true;
  const HttpResponse response = post("/v1/messages", body);
  EXPECT_EQ(header_of(response, "x-tensora-ignored"), "tools[1]");
  const auto events = named_events(response.body);
  EXPECT_EQ(events.front().name, "message_start");
  EXPECT_EQ(events.back().name, "message_stop");
  EXPECT_GT(events.front().data["message"]["usage"]["input_tokens"], 0);
  EXPECT_EQ(without_ids(message_of(events)), without_ids(whole));
}

TEST_F(Dialects, AnthropicReadsBlocks) {
  service.text = "Yes";
  service.stop = "END";
  Json body = message_body();
  body["system"] = Json::array({{{"type", "text"}, {"text", "Be brief"}}});
  body["stop_sequences"] = {"END"};
  body["thinking"] = {{"type", "disabled"}};
  body["messages"] = Json::parse(R"([
      {"role": "user", "content": [{"type": "text", "text": "2 + 2?", "cache_control": {}}]},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "A sum.", "signature": ""},
        {"type": "text", "text": "I add."}, {"type": "tool_use", "id": "c1", "name": "add", "input": {"b": 2}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "4"}]},
        {"type": "text", "text": "Well?"}]}])");
  const Json whole = answer("/v1/messages", body);
  EXPECT_EQ(whole["stop_reason"], "stop_sequence");
  EXPECT_EQ(whole["stop_sequence"], "END");
  const auto& messages = service.last.request.messages;
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].content, "Be brief");
  EXPECT_EQ(messages[2].reasoning, "A sum.");
  EXPECT_EQ(messages[2].tool_calls.at(0).arguments, R"({"b":2})");
  EXPECT_EQ(messages[3].role, "tool");
  EXPECT_EQ(messages[3].content, "4");
  EXPECT_EQ(messages[4].content, "Well?");
  EXPECT_EQ(service.last.request.stop, std::vector<std::string>{"END"});
  const Json counted = answer("/v1/messages/count_tokens", body);
  EXPECT_EQ(counted["input_tokens"], service.last.prompts[0].size());
}

TEST_F(Dialects, AnthropicRefusesMistakes) {
  Json body = message_body();
  body.erase("max_tokens");
  const Json error = refused("/v1/messages", body);
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
  body = message_body();
  body["model"] = "other";
  EXPECT_EQ(refused("/v1/messages", body, 404)["error"]["type"], "not_found_error");
  body = message_body();
  body["tools"][2]["input_schema"]["not"] = Json::object();
  EXPECT_EQ(refused("/v1/messages", body)["error"]["message"].get<std::string>().find(
                "tools[2].input_schema: the keyword not"),
            0u);
  body = message_body();
  body["messages"].push_back(
      {{"role", "assistant"},
       {"content", Json::parse(R"([{"type":"tool_use","id":"1","name":"now","input":{}}])")}});
  refused("/v1/messages", body);
  EXPECT_EQ(anthropic_error(ApiError(503, "full")).status, 529);
  service.fails = true;
  body = message_body();
  body["stream"] = true;
  EXPECT_EQ(named_events(post("/v1/messages", body).body).back().name, "error");
}

// An assistant's last message is continued, in every dialect whose clients expect it.
TEST_F(Dialects, LastMessagesAreContinued) {
  service.text = " and more";
  const Json messages = {{{"role", "user"}, {"content", "Who?"}},
                         {{"role", "assistant"}, {"content", "I am "}}};
  const auto prompt = [&](const std::string& path, Json body) {
    body["messages"] = messages;
    EXPECT_EQ(post(path, body).status, 200) << path;
    return service.model("")->backend->tokenizer()->decode(service.last.prompts.at(0));
  };
  const std::string expected = prompt("/v1/messages", {{"max_tokens", 5}});
  EXPECT_TRUE(expected.ends_with("I am ")) << expected;
  EXPECT_EQ(prompt("/api/chat", Json::object()), expected);
  EXPECT_EQ(prompt("/v1/chat/completions", {{"continue_final_message", true}}), expected);
  EXPECT_TRUE(prompt("/v1/chat/completions", Json::object()).ends_with("<|im_start|>assistant\n"));
  EXPECT_TRUE(prompt("/v1/chat/completions", {{"add_generation_prompt", false}})
                  .ends_with("I am <|im_end|>\n"));
  const Json rendered = Json::parse(
      post("/apply-template", {{"messages", messages}, {"continue_final_message", true}}).body);
  EXPECT_EQ(rendered["prompt"], expected);
  refused(
      "/v1/chat/completions",
      {{"messages", messages}, {"continue_final_message", true}, {"add_generation_prompt", true}});
}

TEST_F(Dialects, AnthropicToolChoice) {
  using Choice = ToolUse::Choice;
  for (const auto& [type, choice] : {std::pair("auto", Choice::automatic),
                                     {"any", Choice::required},
                                     {"none", Choice::none},
                                     {"tool", Choice::named}}) {
    Json body = message_body();
    body["tool_choice"] = {{"type", type}, {"name", "add"}, {"disable_parallel_tool_use", true}};
    answer("/v1/messages", body);
    EXPECT_EQ(service.last.tools.choice, choice);
    EXPECT_FALSE(service.last.tools.parallel);
  }
}

// ---- Responses ---------------------------------------------------------------------------------

Json responses_body() {
  return {{"model", "toy"},
          {"input", "Hello"},
          {"instructions", "Be brief"},
          {"tools", Json::array({{{"type", "web_search"}},
                                 {{"type", "function"}, {"name", "add"}, {"parameters", kSchema}},
                                 {{"type", "function"}, {"name", "now"}}})}};
}

TEST_F(Dialects, ResponsesStreamIsTheResponse) {
  Json body = responses_body();
  const Json whole = answer("/v1/responses", body);
  EXPECT_EQ(whole["status"], "completed");
  ASSERT_EQ(whole["output"].size(), 4u);
  EXPECT_EQ(whole["output"][0]["content"][0]["text"], "hm");
  EXPECT_EQ(whole["output"][1]["content"][0]["text"], "On it.");
  EXPECT_EQ(whole["output"][2]["arguments"], R"({"b": 1, "a": [2]})");
  for (const char* name : {"input_tokens", "input_tokens_details", "output_tokens",
                           "output_tokens_details", "total_tokens"})
    EXPECT_TRUE(whole["usage"].contains(name)) << name;
  body["stream"] = true;
  const HttpResponse response = post("/v1/responses", body);
  EXPECT_EQ(header_of(response, "x-tensora-ignored"), "tools[0]");
  const auto events = named_events(response.body);
  EXPECT_EQ(events[0].name, "response.created");
  EXPECT_EQ(events[1].name, "response.in_progress");
  EXPECT_EQ(events.back().name, "response.completed");
  // As the clients put it together: each item is added, filled, and done before the next one.
  std::map<std::string, std::string> texts;
  std::string open;
  Json items = Json::array();
  for (size_t i = 0; i < events.size(); ++i) {
    const auto& [name, data] = events[i];
    EXPECT_EQ(data["sequence_number"], i);
    if (name == "response.output_item.added") {
      EXPECT_EQ(open, "");
      EXPECT_EQ(data["output_index"], items.size());
      open = data["item"]["id"];
    }
    if (name.ends_with(".delta")) {
      EXPECT_EQ(data["item_id"], open);
      texts[open] += data["delta"].get<std::string>();
    }
    if (name.ends_with("text.done")) {
      EXPECT_EQ(data["text"], texts[open]);
    }
    if (name.ends_with("arguments.done")) {
      EXPECT_EQ(data["arguments"], texts[open]);
    }
    if (name == "response.output_item.done") {
      EXPECT_EQ(data["item"]["id"], open);
      items.push_back(data["item"]);
      open.clear();
    }
  }
  const Json& last = events.back().data["response"];
  EXPECT_EQ(last["output"], items);
  EXPECT_EQ(last["id"], events[0].data["response"]["id"]);
  EXPECT_EQ(without_ids(last), without_ids(whole));
}

TEST_F(Dialects, ResponsesReadItems) {
  service.text = "Yes";
  Json body = responses_body();
  body["input"] = Json::parse(R"([
      {"role": "developer", "content": [{"type": "input_text", "text": "Rules"}]},
      {"type": "message", "role": "user", "content": "2 + 2?"},
      {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "A sum."}]},
      {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"b\": 2}"},
      {"type": "function_call_output", "call_id": "c1", "output": "4"}])");
  answer("/v1/responses", body);
  const auto& messages = service.last.request.messages;
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[1].role, "system");
  EXPECT_EQ(messages[3].reasoning, "A sum.");
  EXPECT_EQ(messages[3].tool_calls.at(0).name, "add");
  EXPECT_EQ(messages[4].tool_call_id, "c1");
  EXPECT_EQ(answer("/v1/responses/input_tokens", body)["input_tokens"],
            service.last.prompts[0].size());
}

TEST_F(Dialects, ResponsesEndAndMistakes) {
  service.text = "half an ans";
  service.reason = llm::FinishReason::length;
  Json body = responses_body();
  const Json cut = answer("/v1/responses", body);
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
  body["stream"] = true;
  EXPECT_EQ(named_events(post("/v1/responses", body).body).back().name, "response.incomplete");
  service.fails = true;
  const auto failed = named_events(post("/v1/responses", body).body);
  EXPECT_EQ(failed.back().name, "response.failed");
  EXPECT_EQ(failed.back().data["response"]["status"], "failed");
  body = responses_body();
  body["previous_response_id"] = "resp_1";
  EXPECT_EQ(refused("/v1/responses", body)["error"]["param"], "previous_response_id");
  body = responses_body();
  body["text"]["format"] = {
      {"type", "json_schema"}, {"name", "n"}, {"schema", {{"not", Json::object()}}}};
  EXPECT_EQ(refused("/v1/responses", body)["error"]["param"], "text.format.schema");
  body = responses_body();
  body["tools"][1]["parameters"]["properties"]["b"]["multipleOf"] = 2;
  EXPECT_EQ(refused("/v1/responses", body)["error"]["param"], "tools[1].parameters.properties.b");
}

TEST_F(Dialects, ResponsesLogprobs) {
  service.text = "Yes";
  Json body = {{"input", "Hello"}, {"include", {"message.output_text.logprobs"}}};
  const Json whole = answer("/v1/responses", body);
  EXPECT_EQ(whole["output"][0]["content"][0]["logprobs"].size(), 3u);
  body["stream"] = true;
  const auto events = named_events(post("/v1/responses", body).body);
  EXPECT_EQ(without_ids(events.back().data["response"]["output"]), without_ids(whole["output"]));
}

// ---- Ollama ------------------------------------------------------------------------------------

std::vector<Json> lines_of(const std::string& body) {
  std::vector<Json> lines;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    lines.push_back(Json::parse(body.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

TEST_F(Dialects, OllamaStreamIsTheAnswer) {
  const Json tools =
      Json::array({{{"type", "function"}, {"function", {{"name", "add"}, {"parameters", kSchema}}}},
                   {{"type", "function"}, {"function", {{"name", "now"}}}}});
  Json body = {{"model", "toy:latest"},
               {"messages", kUser},
               {"tools", tools},
               {"stream", false},
               {"options", {{"temperature", 0}, {"num_predict", 50}, {"num_gpu", 1}}}};
  const HttpResponse one = post("/api/chat", body);
  EXPECT_EQ(header_of(one, "x-tensora-ignored"), "options.num_gpu");
  const Json whole = Json::parse(one.body);
  EXPECT_EQ(whole["model"], "toy");
  EXPECT_EQ(whole["done"], true);
  EXPECT_EQ(service.last.request.max_tokens, 50);
  EXPECT_EQ(whole["message"]["thinking"], "hm");
  EXPECT_EQ(whole["message"]["tool_calls"][0]["function"]["arguments"].dump(),
            R"({"b":1,"a":[2]})");
  body.erase("stream");
  const HttpResponse response = post("/api/chat", body);
  EXPECT_EQ(response.content_type, "application/x-ndjson");
  Json message = {
      {"role", "assistant"}, {"content", ""}, {"thinking", ""}, {"tool_calls", Json::array()}};
  const auto lines = lines_of(response.body);
  for (const Json& line : lines) {
    EXPECT_EQ(line["done"], &line == &lines.back());
    for (const char* field : {"content", "thinking"})
      message[field] =
          message[field].get<std::string>() + line["message"].value(field, std::string());
    for (const Json& call : line["message"].value("tool_calls", Json::array()))
      message["tool_calls"].push_back(call);
  }
  EXPECT_EQ(without_ids(message), without_ids(whole["message"]));
  EXPECT_EQ(lines.back()["eval_count"], whole["eval_count"]);
}

TEST_F(Dialects, OllamaGenerateAndModels) {
  service.text = "Yes";
  EXPECT_EQ(answer("/api/generate", {{"prompt", "Hi"}, {"stream", false}})["response"], "Yes");
  EXPECT_EQ(service.last.request.messages.at(0).content, "Hi");
  answer("/api/generate", {{"prompt", "Hi"}, {"raw", true}, {"stream", false}});
  EXPECT_EQ(service.last.request.prompt, "Hi");
  EXPECT_EQ(answer("/api/generate", {{"model", "toy"}})["done_reason"], "load");
  EXPECT_EQ(answer("/api/show", {{"model", "toy"}})["model_info"]["general.architecture"], "qwen3");
  EXPECT_EQ(answer("/api/embed", {{"input", {"a", "b"}}})["embeddings"].size(), 2u);
  EXPECT_EQ(answer("/api/embeddings", {{"prompt", "a"}})["embedding"][0], 0.5);
  refused("/api/embeddings", {{"prompt", Json::array()}});
  const auto get = [&](const char* path) {
    return Json::parse(ask(router, "GET", path, "")->wait().body);
  };
  EXPECT_EQ(get("/api/tags")["models"][0]["name"], "toy");
  EXPECT_EQ(get("/api/ps")["models"][0]["context_length"], 4096);
  EXPECT_TRUE(get("/api/version")["version"].is_string());
}

TEST(OllamaSuffix, IsWhatTheAnswerStandsBefore) {
  ScriptedService service({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"});
  service.text = "b";
  Router router;
  add_ollama_routes(router, service);
  const Json body = {{"prompt", "a"}, {"suffix", "c"}, {"stream", false}};
  const HttpResponse response = ask(router, "POST", "/api/generate", body.dump())->wait();
  EXPECT_EQ(Json::parse(response.body)["response"], "b") << response.body;
  EXPECT_EQ(service.model("")->backend->tokenizer()->decode(service.last.prompts.at(0)),
            "<|fim_prefix|>a<|fim_suffix|>c<|fim_middle|>");
}

TEST_F(Dialects, OllamaRefusesMistakes) {
  EXPECT_TRUE(
      refused("/api/chat", {{"model", "other"}, {"messages", kUser}}, 404)["error"].is_string());
  refused("/api/pull", {{"model", "toy"}}, 403);
  refused("/api/chat", {{"messages", kUser}, {"format", "xml"}});
  refused("/api/generate", {{"prompt", "x"}, {"template", "{{ x }}"}});
  refused("/api/generate", {{"prompt", "x"}, {"suffix", "y"}});
  refused("/api/generate", {{"prompt", "x"}, {"images", {"AA=="}}});
  service.fails = true;
  const auto lines = lines_of(post("/api/chat", {{"messages", kUser}}).body);
  EXPECT_EQ(lines.back()["error"], "internal error");
}

TEST_F(Dialects, AnthropicReadsAllSamplingFields) {
  Json body = message_body();
  body.update({{"seed", 7}, {"min_p", 0.25}, {"top_k", -1}, {"repetition_penalty", 1.5}});
  EXPECT_EQ(header_of(post("/v1/messages", body), "x-tensora-ignored"), "tools[1]");
  const llm::SamplingOptions& sampling = service.last.request.sampling;
  EXPECT_EQ(sampling.seed, 7u);
  EXPECT_EQ(sampling.min_p, 0.25);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.repeat_penalty, 1.5);
}

// ---- llama.cpp ---------------------------------------------------------------------------------

TEST_F(Dialects, LlamaStreamIsTheCompletion) {
  service.text = "abcdefgh";
  Json body = {{"prompt", "Hi"}, {"n_predict", 8}, {"return_tokens", true}, {"n_probs", 1}};
  const Json whole = answer("/completion", body);
  EXPECT_EQ(whole["content"], "abcdefgh");
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["completion_probabilities"].size(), 8u);
  EXPECT_EQ(service.last.prompts[0].size(), 2u);
  body["stream"] = true;
  std::string text;
  Json probabilities = Json::array();
  const auto events = events_of(post("/completion", body).body);
  for (const std::string& event : events) {
    const Json data = Json::parse(event);
    EXPECT_EQ(data["stop"], &event == &events.back());
    text += data["content"].get<std::string>();
    for (const Json& one : data.value("completion_probabilities", Json::array()))
      probabilities.push_back(one);
  }
  EXPECT_EQ(text, "abcdefgh");
  EXPECT_EQ(probabilities, whole["completion_probabilities"]);
  body["prompt"] = Json::array({"a", 5, 6, "b"});
  post("/completion", body);
  EXPECT_EQ(service.last.prompts[0].size(), 4u);
}

TEST_F(Dialects, LlamaTools) {
  const Json tokens = answer("/tokenize", {{"content", "Hi\xC3\xA9"}})["tokens"];
  EXPECT_EQ(tokens.size(), 4u);
  EXPECT_EQ(answer("/detokenize", {{"tokens", tokens}})["content"], "Hi\xC3\xA9");
  const Json pieces = answer("/tokenize", {{"content", "\xC3\xA9"}, {"with_pieces", true}});
  EXPECT_EQ(pieces["tokens"][0]["piece"], Json::array({0xC3}));
  const std::string prompt =
      answer("/apply-template", {{"messages", kUser}})["prompt"].get<std::string>();
  EXPECT_NE(prompt.find("Hello<|im_end|>"), std::string::npos);
  refused("/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}});
  refused("/lora-adapters", {{"x", 1}});
  EXPECT_EQ(Json::parse(ask(router, "GET", "/slots", "")->wait().body).size(), 8u);
  EXPECT_EQ(ask(router, "GET", "/lora-adapters", "")->wait().body, "[]");
}

}  // namespace
}  // namespace tensora::serve
