#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "../llm/toy_model.h"
#include "tensora/llm/engine.h"
#include "tensora/llm/sequence_runner.h"
#include "tensora/serve/engine_service.h"
#include "tensora/serve/json_fields.h"
#include "tensora/serve/router.h"

namespace tensora::serve::testing {

namespace toy = llm::testing;

/// A backend with the toy model. Messages are written one after the other: "AB" and "C" is "ABC".
class ToyBackend final : public llm::FrameworkBackend {
 public:
  explicit ToyBackend(llm::EngineOptions options = {}, int64_t context = 256)
      : model(std::make_shared<toy::ToyModel>(context)),
        chat_("{% for m in messages %}{{ m.content }}{% endfor %}", "", "") {
    options.cache_dtype = kFloat32;
    options.block_size = 4;
    engine.emplace(llm::EngineParts{model, std::make_shared<toy::ToyTokenizer>(), chat_}, options);
  }
  std::string name() const override { return "toy"; }
  Device device() const override { return {}; }
  void load_model(const std::string&, const llm::BackendOptions&) override {}
  void load_tokenizer(const std::string&) override {}
  llm::Generation submit(llm::Request request) override {
    return engine->submit(std::move(request));
  }
  std::vector<int32_t> tokens_of(const llm::Request& request) override {
    return engine->tokens_of(request);
  }
  std::unique_ptr<llm::SequenceSession> open_sequences(
      const llm::SessionOptions& options) override {
    llm::SessionOptions chosen = options;
    chosen.cache_dtype = kFloat32;
    return std::make_unique<llm::SequenceRunner>(model, chosen);
  }
  llm::ModelInfo model_info() const override {
    return {.summary = {.name = "toy", .precision = "f32"},
            .config = model->config(),
            .positions = model->config().context_length};
  }
  int64_t context() override { return engine->options().context; }
  llm::TokenizerPtr tokenizer() const override { return engine->tokenizer(); }
  const llm::ChatTemplate* chat_template() const override { return engine->chat_template(); }
  llm::EngineStats stats() const override { return engine->stats(); }
  llm::BackendMemory memory_usage() const override { return {}; }
  void cleanup() noexcept override { engine.reset(); }

  std::shared_ptr<toy::ToyModel> model;
  std::optional<llm::Engine> engine;

 private:
  llm::ChatTemplate chat_;
};

/// Keeps what is written to it.
class RecordedReply final : public Reply {
 public:
  void send(HttpResponse response) override { put(std::move(response), true); }
  void begin(HttpResponse head) override { put(std::move(head), false); }
  void write(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    if (holds_) held_ += bytes.size();
    response_.body += bytes;
    ++writes_;
    changed_.notify_all();
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
  }
  size_t unsent() const override {
    const std::lock_guard lock(mutex_);
    ++looks_;
    return held_;
  }
  bool is_gone() const override {
    const std::lock_guard lock(mutex_);
    return is_gone_;
  }
  void on_gone(std::function<void()> callback) override {
    {
      const std::lock_guard lock(mutex_);
      if (!is_gone_) {
        callback_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  /// The client closes the connection.
  void leave() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      is_gone_ = true;
      callback = std::exchange(callback_, nullptr);
    }
    if (callback) callback();
  }
  /// The client stops reading, or reads all that there is.
  void hold(bool holds) {
    const std::lock_guard lock(mutex_);
    holds_ = holds;
    if (!holds) held_ = 0;
  }
  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return is_done_; }));
    return response_;
  }
  void wait_for_bytes(size_t bytes) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return is_done_ || response_.body.size() >= bytes; }));
  }
  size_t size() { return body().size(); }
  std::string body() {
    const std::lock_guard lock(mutex_);
    return response_.body;
  }
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return is_done_;
  }
  /// How often somebody has asked for the unsent bytes.
  size_t looks() {
    const std::lock_guard lock(mutex_);
    return looks_;
  }

 private:
  void put(HttpResponse response, bool is_all) {
    const std::lock_guard lock(mutex_);
    if (holds_) held_ += response.body.size();
    response_ = std::move(response);
    is_done_ = is_all;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;
  std::function<void()> callback_;
  size_t held_ = 0, writes_ = 0;
  mutable size_t looks_ = 0;
  bool is_done_ = false, is_gone_ = false, holds_ = false;
};

/// Asks a router as the HTTP layer does: errors that are thrown become the route's.
inline std::shared_ptr<RecordedReply> ask(const Router& router, const std::string& method,
                                          const std::string& path, const std::string& body,
                                          const std::string& key = {}) {
  const auto reply = std::make_shared<RecordedReply>();
  Exchange exchange{.request = {.method = method,
                                .path = path,
                                .query = {},
                                .headers = {},
                                .body = body,
                                .id = "test",
                                .address = {}},
                    .reply = reply,
                    .key = key,
                    .parameter = {}};
  std::string allowed;
  const Route* route = router.find(method, path, exchange.parameter, allowed);
  if (!route) {
    ADD_FAILURE() << "no route " << method << " " << path;
    return reply;
  }
  try {
    route->handle(exchange);
  } catch (const ApiError& error) {
    reply->send(route->error(error));
  }
  return reply;
}

/// The data of server-sent events.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos || body.compare(at, 6, "data: ") != 0) {
      ADD_FAILURE() << "not an event: " << body.substr(at, 200);
      break;
    }
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

inline std::string header_of(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return {};
}

}  // namespace tensora::serve::testing
