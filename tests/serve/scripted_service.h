#pragma once

#include <fstream>

#include "../llm/toy_tokenizer.h"
#include "tensora/llm/backends/framework_backend.h"
#include "tensora/serve/answer_format.h"
#include "tensora/serve/json_fields.h"
#include "tensora/serve/service.h"
#include "toy_service.h"

namespace tensora::serve::testing {

/// A backend with a tokenizer of bytes and further tokens and with Qwen's chat template, which
/// generates nothing.
class ScriptedBackend : public llm::FrameworkBackend {
 public:
  explicit ScriptedBackend(const std::vector<std::string>& tokens = {})
      : tokenizer_(llm::ToyTokenizer::with_bytes(tokens)), chat_(read_template(), "", "") {}
  std::string name() const override { return "scripted"; }
  Device device() const override { return {}; }
  void load_model(const std::string&, const llm::BackendOptions&) override {}
  void load_tokenizer(const std::string&) override {}
  llm::Generation submit(llm::Request) override { fail("scripted: generates nothing"); }
  std::vector<int32_t> tokens_of(const llm::Request& request) override {
    const bool is_chat = !request.messages.empty();
    return tokenizer_->encode(is_chat ? chat_.render(request.messages, request.chat)
                                      : request.prompt);
  }
  llm::ModelInfo model_info() const override { return {}; }
  int64_t context() override { return 4096; }
  llm::TokenizerPtr tokenizer() const override { return tokenizer_; }
  const llm::ChatTemplate* chat_template() const override { return &chat_; }
  llm::EngineStats stats() const override { return {}; }
  llm::BackendMemory memory_usage() const override { return {}; }
  void cleanup() noexcept override {}

 private:
  static std::string read_template() {
    std::ifstream file(TENSORA_TESTS "/llm/templates/qwen3.jinja");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  llm::TokenizerPtr tokenizer_;
  llm::ChatTemplate chat_;
};

/// Answers each request with a text that was written before, in pieces of a few letters.
class ScriptedService final : public Service {
 public:
  explicit ScriptedService(const std::vector<std::string>& tokens = {}) {
    auto model = std::make_shared<ServedModel>();
    model->name = "toy";
    model->created = 1'700'000'000;
    model->backend = std::make_shared<ScriptedBackend>(tokens);
    model->info.config.architecture = "qwen3";
    model_ = std::move(model);
  }

  std::vector<ModelEntry> models() const override {
    return {{.name = "toy", .is_loaded = true, .created = model_->created}};
  }
  ServedModelPtr model(const std::string& name) override {
    if (!name.empty() && name != "toy")
      throw ApiError(404, "there is no model '" + name + "'", "model", "model_not_found");
    return model_;
  }
  ServedModelPtr loaded_model(const std::string& name) const override {
    return name == "toy" ? model_ : nullptr;
  }
  const llm::SamplingOptions& sampling() const override { return sampling_; }
  ServiceLoad load() const override { return {}; }
  void drain() override {}
  void end_all(const ApiError&) override {}
  std::string metrics() override { return {}; }
  std::vector<std::vector<float>> embed(const ServedModel&,
                                        const std::vector<std::vector<int32_t>>& texts,
                                        const Reply&) override {
    return std::vector<std::vector<float>>(texts.size(), {0.5f, -1.f});
  }
  std::vector<double> judge(const ServedModel&, const std::vector<std::vector<int32_t>>& prompts,
                            int32_t, int32_t, const Reply&) override {
    return std::vector<double>(prompts.size(), 0.5);
  }

  void answer(AnswerRequest request, std::shared_ptr<AnswerSink> sink) override {
    const llm::Tokenizer& tokenizer = *model_->backend->tokenizer();
    const AnswerFormat format(
        request.request.messages.empty() ? nullptr : model_->backend->chat_template(),
        model_->backend->tokenizer(), request);
    if (request.prompts.empty()) request.prompts = {model_->backend->tokens_of(request.request)};
    last = request;
    const auto prompt = static_cast<int64_t>(request.prompts[0].size());
    Answer answer;
    const auto give = [&](const AnswerEvent& event) {
      using Kind = AnswerEvent::Kind;
      if (event.kind == Kind::text) {
        answer.text += event.text;
        answer.text_logprobs.insert(answer.text_logprobs.end(), event.tokens.begin(),
                                    event.tokens.end());
      }
      if (event.kind == Kind::reasoning) {
        answer.reasoning += event.text;
        answer.reasoning_tokens += std::ssize(event.tokens);
      }
      if (event.kind == Kind::call) answer.calls.push_back({event.call_id, event.name});
      if (event.kind == Kind::arguments) answer.calls.back().arguments += event.text;
      if (request.wants_parts) sink->on_event(event);
      if (request.wants_parts) sink->on_flush();
    };
    give({.kind = AnswerEvent::Kind::begin, .prompt_tokens = prompt});
    const auto parser = format.parser();
    for (size_t at = 0; at < text.size(); at += 3) {
      llm::Piece piece{.text = text.substr(at, 3), .tokens = {}};
      for (const char c : piece.text)
        piece.tokens.push_back(
            {.token = tokenizer.find(std::string(1, c)).value(), .logprob = -0.5f, .top = {}});
      parser->push(std::move(piece), give);
      if (fails && at > 0) return sink->on_error(ApiError(500, "internal error"));
    }
    answer.completion.reason = reason;
    answer.completion.stop = stop;
    answer.completion.usage.prompt_tokens = prompt;
    answer.completion.usage.cached_tokens = 4;
    answer.completion.usage.completion_tokens = std::ssize(text);
    answer.end = parser->finish(answer.completion, give);
    give({.kind = AnswerEvent::Kind::end, .end = answer.end, .whole = &answer});
    sink->on_end({answer});
  }

  std::string text;  // of the next answers
  llm::FinishReason reason = llm::FinishReason::stop;
  std::string stop;
  bool fails = false;  // in the middle
  AnswerRequest last;

 private:
  std::shared_ptr<const ServedModel> model_;
  llm::SamplingOptions sampling_;
};

}  // namespace tensora::serve::testing
