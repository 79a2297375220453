#pragma once

#include "tensora/serve/metrics_routes.h"
#include "tensora/serve/openai_routes.h"
#include "toy_service.h"

namespace tensora::serve::testing {

/// A service with the toy model behind OpenAI's routes.
class OpenAiTest : public ::testing::Test {
 protected:
  void start(llm::EngineOptions engine = {}, ServiceOptions options = {}) {
    backend = std::make_shared<ToyBackend>(engine);
    options.models = {{.name = "toy",
                       .aliases = {"gpt-toy"},
                       .load = [this] { return backend; },
                       .slots = engine.max_sequences}};
    service = make_service(std::move(options));
    router.emplace();
    add_openai_routes(*router, *service);
    add_metrics_routes(*router, *service);
  }
  std::shared_ptr<RecordedReply> post(const std::string& path, const Json& body,
                                      const std::string& key = {}) {
    return ask(*router, "POST", path, body.dump(), key);
  }
  Json answer(const std::string& path, const Json& body, const std::string& key = {}) {
    const HttpResponse response = post(path, body, key)->wait();
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  /// The error's object.
  Json refused(const std::string& path, const Json& body, int status = 400) {
    const HttpResponse response = post(path, body)->wait();
    EXPECT_EQ(response.status, status) << body.dump().substr(0, 300) << response.body;
    const Json error = Json::parse(response.body).value("error", Json::object());
    for (const char* name : {"message", "type", "param", "code"})
      EXPECT_TRUE(error.contains(name)) << response.body;
    return error;
  }
  /// Waits until the service has forgotten all requests.
  void wait_until_idle() {
    for (int i = 0; i < 2000; ++i) {
      if (service->load().answers == 0 && backend->stats().blocks.used == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << service->load().answers << " answers are open, "
                  << backend->stats().blocks.used << " blocks in use";
  }

  std::shared_ptr<ToyBackend> backend;
  std::unique_ptr<Service> service;
  std::optional<Router> router;
};

inline Json chat(const std::string& text, int64_t tokens = 20) {
  return {{"model", "toy"},
          {"messages", Json::array({{{"role", "user"}, {"content", text}}})},
          {"max_tokens", tokens},
          {"temperature", 0}};
}

inline Json completion(const Json& prompt, int64_t tokens = 20) {
  return {{"model", "toy"}, {"prompt", prompt}, {"max_tokens", tokens}, {"temperature", 0}};
}

}  // namespace tensora::serve::testing
