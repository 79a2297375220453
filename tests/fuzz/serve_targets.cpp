#include <nlohmann/json.hpp>

#include "../llm/toy_tokenizer.h"
#include "targets.h"
#include "tensora/base/check.h"
#include "tensora/serve/answer_format.h"
#include "tensora/serve/anthropic_routes.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/ollama_routes.h"
#include "tensora/serve/openai_routes.h"
#include "tensora/serve/responses_routes.h"

namespace tensora::fuzz {
namespace {

using namespace serve;

// Has a tokenizer and a template, and computes nothing.
class StubBackend final : public llm::FrameworkBackend {
 public:
  std::string name() const override { return "stub"; }
  Device device() const override { return {}; }
  void load_model(const std::string&, const llm::BackendOptions&) override {}
  void load_tokenizer(const std::string&) override {}
  llm::Generation submit(llm::Request) override { fail("stub: computes nothing"); }
  llm::ModelInfo model_info() const override { return {}; }
  int64_t context() override { return 4096; }
  llm::TokenizerPtr tokenizer() const override { return tokenizer_; }
  const llm::ChatTemplate* chat_template() const override { return &chat_; }
  llm::EngineStats stats() const override { return {}; }
  llm::BackendMemory memory_usage() const override { return {}; }
  void cleanup() noexcept override {}

 private:
  llm::TokenizerPtr tokenizer_ = llm::ToyTokenizer::with_bytes();
  llm::ChatTemplate chat_ = llm::ChatTemplate::builtin("chatml", "", "");
};

// Prepares requests as the service does, and answers all with the same.
class StubService final : public Service {
 public:
  StubService() {
    model_.name = "stub";
    model_.backend = std::make_shared<StubBackend>();
    model_.info.config.vocab_size = model_.backend->tokenizer()->vocab_size();
    model_.info.config.hidden_size = 4;
  }
  std::vector<ModelEntry> models() const override { return {{.name = "stub"}}; }
  ServedModelPtr model(const std::string&) override {
    return std::make_shared<const ServedModel>(model_);
  }
  ServedModelPtr loaded_model(const std::string&) const override {
    return std::make_shared<const ServedModel>(model_);
  }
  void answer(AnswerRequest request, std::shared_ptr<AnswerSink> sink) override {
    const AnswerFormat format(
        request.request.messages.empty() ? nullptr : model_.backend->chat_template(),
        model_.backend->tokenizer(), request);
    if (request.prompts.empty()) model_.backend->tokens_of(request.request);
    const size_t prompts = std::max<size_t>(1, request.prompts.size());
    std::vector<Answer> answers(prompts * static_cast<size_t>(request.n));
    const std::string text = "An \xc3\xa9 answer";
    for (size_t i = 0; i < answers.size(); ++i) {
      Answer& whole = answers[i];
      const auto give = [&](AnswerEvent event) {
        if (event.kind == AnswerEvent::Kind::text) whole.text += event.text;
        event.answer = static_cast<int64_t>(i);
        if (request.wants_parts) sink->on_event(event);
      };
      const auto parser = format.parser();
      give({.kind = AnswerEvent::Kind::begin});
      parser->push({.text = text, .tokens = {}}, give);
      whole.completion.text = text;
      whole.end = parser->finish(whole.completion, give);
      give({.kind = AnswerEvent::Kind::end, .end = whole.end, .whole = &whole});
    }
    if (request.wants_parts) sink->on_flush();
    sink->on_end(answers);
  }
  const llm::SamplingOptions& sampling() const override { return sampling_; }
  ServiceLoad load() const override { return {}; }
  void drain() override {}
  void end_all(const ApiError&) override {}
  std::string metrics() override { return {}; }
  std::vector<std::vector<float>> embed(const ServedModel&,
                                        const std::vector<std::vector<int32_t>>& texts,
                                        const Reply&) override {
    return std::vector<std::vector<float>>(texts.size(), {0.5f, 0.5f, 0.5f, 0.5f});
  }
  std::vector<double> judge(const ServedModel&, const std::vector<std::vector<int32_t>>& prompts,
                            int32_t, int32_t, const Reply&) override {
    return std::vector<double>(prompts.size(), 0.5);
  }

 private:
  ServedModel model_;
  llm::SamplingOptions sampling_;
};

// What is sent must be JSON, lines of JSON, or events with JSON.
class CheckingReply final : public Reply {
 public:
  void send(HttpResponse response) override {
    ensure(nlohmann::json::accept(response.body), "fuzz: the answer is not JSON");
  }
  void begin(HttpResponse head) override {
    has_lines_ = head.content_type == "application/x-ndjson";
    write(std::move(head.body));
  }
  void write(std::string_view bytes) override {
    for (size_t at = 0; has_lines_ && at < bytes.size();) {
      const size_t end = std::min(bytes.find('\n', at), bytes.size());
      ensure(nlohmann::json::accept(bytes.substr(at, end - at)), "fuzz: a line is not JSON");
      at = end + 1;
    }
    for (size_t at = 0; !has_lines_ && at < bytes.size();) {
      if (bytes.compare(at, 7, "event: ") == 0) at = bytes.find('\n', at) + 1;
      const size_t end = bytes.find("\n\n", at);
      ensure(end != std::string::npos && bytes.compare(at, 6, "data: ") == 0, "fuzz: no event");
      const std::string_view data = bytes.substr(at + 6, end - at - 6);
      ensure(data == "[DONE]" || nlohmann::json::accept(data), "fuzz: an event is not JSON");
      at = end + 2;
    }
  }
  void end() override {}
  size_t unsent() const override { return 0; }
  bool is_gone() const override { return false; }
  void on_gone(std::function<void()>) override {}

 private:
  bool has_lines_ = false;
};

void post(const char* path, std::string_view body) {
  static StubService service;
  static const Router router = [] {
    Router all;
    add_openai_routes(all, service);
    add_responses_routes(all, service);
    add_anthropic_routes(all, service);
    add_ollama_routes(all, service);
    add_llama_routes(all, service);
    return all;
  }();
  Exchange exchange;
  exchange.request.method = "POST";
  exchange.request.path = path;
  exchange.request.body = body;
  exchange.reply = std::make_shared<CheckingReply>();
  std::string allowed;
  const Route* route = router.find("POST", path, exchange.parameter, allowed);
  ensure(route != nullptr, "fuzz: no route ", path);
  try {
    route->handle(exchange);
  } catch (const ApiError& error) {
    ensure(error.status >= 400 && error.status < 500, "fuzz: status ", error.status);
    exchange.reply->send(route->error(error));
  }
}

void chat(std::string_view body) { post("/v1/chat/completions", body); }
void completions(std::string_view body) { post("/v1/completions", body); }
void embeddings(std::string_view body) { post("/v1/embeddings", body); }
void responses(std::string_view body) {
  post("/v1/responses", body);
  post("/v1/responses/input_tokens", body);
}
void messages(std::string_view body) {
  post("/v1/messages", body);
  post("/v1/messages/count_tokens", body);
}
void ollama(std::string_view body) {
  for (const char* path : {"/api/chat", "/api/generate", "/api/show", "/api/embed"})
    post(path, body);
}
void llama(std::string_view body) {
  for (const char* path :
       {"/completion", "/infill", "/tokenize", "/detokenize", "/apply-template", "/v1/rerank"})
    post(path, body);
}

std::vector<std::string> response_bodies() {
  return {R"({"input":"a","instructions":"b","stream":true,"max_output_tokens":5,"top_p":0.5})",
          R"({"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},
          {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"b"}]},
          {"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
          {"type":"function_call_output","call_id":"1","output":"c"}],
          "tools":[{"type":"function","name":"f","parameters":{"type":"object"}},
          {"type":"web_search"}],"tool_choice":{"type":"function","name":"f"},"stream":true,
          "text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"}}},
          "reasoning":{"effort":"low"},"include":["message.output_text.logprobs"]})"};
}
std::vector<std::string> message_bodies() {
  return {R"({"max_tokens":5,"messages":[{"role":"user","content":"a"}],"stream":true,"top_k":3})",
          R"({"max_tokens":5,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user",
          "content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"thinking",
          "thinking":"t","signature":""},{"type":"tool_use","id":"1","name":"f","input":{}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r",
          "is_error":true}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}],
          "tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":1024},
          "stop_sequences":["x"]})"};
}
std::vector<std::string> ollama_bodies() {
  return {R"({"model":"m","messages":[{"role":"user","content":"a"}],"options":{"num_predict":5,
          "temperature":0.1,"stop":["x"]},"format":"json","think":true})",
          R"({"messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f",
          "arguments":{"a":1}}}]},{"role":"tool","content":"r","tool_name":"f"}],"stream":false,
          "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]})",
          R"({"prompt":"a","system":"s","raw":false,"format":{"type":"object"},"think":"low"})",
          R"({"input":["a","b"],"keep_alive":"5m"})"};
}
std::vector<std::string> llama_bodies() {
  return {R"({"prompt":"a","n_predict":5,"n_probs":2,"stream":true,"return_tokens":true})",
          R"({"prompt":["a",5,6,"b"],"json_schema":{"type":"object"},"cache_prompt":false})",
          R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"f","text":"t"}]})",
          R"({"content":"abc","with_pieces":true,"add_special":true})",
          R"({"tokens":[1,2,3]})",
          R"({"query":"a","documents":["b",{"text":"c"}],"top_n":1,"return_documents":true})",
          R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})"};
}

std::vector<std::string> chats() {
  return {R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true})",
          R"({"messages":[{"role":"system","content":[{"type":"text","text":"a"}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
           "function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"x",
           "tool_call_id":"1"}],"n":2,"stop":["a","b"],"logit_bias":{"5":-100},"seed":7,
          "response_format":{"type":"json_schema","json_schema":{"name":"s","schema":
           {"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}})",
          R"({"messages":[{"role":"user","content":"w"}],"tools":[{"type":"function","function":
          {"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}],
          "tool_choice":{"type":"function","function":{"name":"f"}},"logprobs":true,
          "top_logprobs":3,"chat_template_kwargs":{"a":1},"reasoning_effort":"low"})",
          R"({"messages":[{"role":"user","content":"w"}],"temperature":0.5,"top_k":-1,"dry_base":2,
          "dry_sequence_breakers":["a"],"mirostat":2,"max_tokens":1000000000,"stream":true,
          "stream_options":{"include_usage":true},"grammar":"root ::= \"a\"","cache_salt":"s"})"};
}
std::vector<std::string> prompts() {
  return {R"({"prompt":"a","max_tokens":5,"echo":true,"stream":true})",
          R"({"prompt":["a","b"],"n":2,"best_of":3})",
          R"({"prompt":[[5,6],[7]],"logprobs":2,"suffix":"","stop":"x","seed":-1})"};
}
std::vector<std::string> inputs() {
  return {R"({"input":"a","encoding_format":"base64","dimensions":2})",
          R"({"input":[[5,6],"b"],"user":"me"})"};
}

}  // namespace

std::span<const Target> serve_targets() {
  static const Target all[] = {{"chat_request", chat, chats},
                               {"completion_request", completions, prompts},
                               {"embedding_request", embeddings, inputs},
                               {"responses_request", responses, response_bodies},
                               {"anthropic_request", messages, message_bodies},
                               {"ollama_request", ollama, ollama_bodies},
                               {"llama_request", llama, llama_bodies}};
  return all;
}

}  // namespace tensora::fuzz
