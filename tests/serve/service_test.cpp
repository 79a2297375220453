#include <set>

#include "openai_toy.h"
#include "tensora/serve/answer_queue.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/ollama_routes.h"

namespace tensora::serve {
namespace {

using namespace testing;

constexpr const char* kChat = "/v1/chat/completions";

class ServiceTest : public OpenAiTest {
 protected:
  static Json stream(const std::string& text, int64_t tokens = 200) {
    Json body = chat(text, tokens);
    body["stream"] = true;
    body["ignore_eos"] = true;
    return body;
  }
  // Of a whole stream.
  static std::string text_of(const HttpResponse& response) {
    std::string text;
    for (const std::string& event : events_of(response.body))
      if (event != "[DONE]") text += Json::parse(event)["choices"][0]["delta"].value("content", "");
    return text;
  }
};

TEST_F(ServiceTest, AClientThatGoesFreesItsBlocks) {
  start({.max_sequences = 4});
  backend->model->delay = std::chrono::microseconds(500);
  std::vector<std::shared_ptr<RecordedReply>> replies;
  for (int i = 0; i < 12; ++i) {  // some wait in the queue
    Json body = stream("ABC");
    body["stream"] = i % 3 != 0;
    replies.push_back(post(kChat, body));
  }
  replies[1]->wait_for_bytes(1);
  for (const auto& reply : replies) reply->leave();
  wait_until_idle();
  EXPECT_EQ(service->load().queued, 0);
  EXPECT_NE(service->metrics().find("reason=\"client_gone\"} 12\n"), std::string::npos)
      << service->metrics();
  // One that has gone before it was asked for.
  const auto reply = std::make_shared<RecordedReply>();
  reply->leave();
  Exchange exchange{.request = {.method = "POST",
                                .path = kChat,
                                .query = {},
                                .headers = {},
                                .body = stream("A").dump(),
                                .id = {},
                                .address = {}},
                    .reply = reply,
                    .key = {},
                    .parameter = {}};
  std::string allowed;
  router->find("POST", kChat, exchange.parameter, allowed)->handle(exchange);
  wait_until_idle();
}

// A long prompt is being read: the client that goes does not wait for its end.
TEST_F(ServiceTest, AClientThatGoesEndsThePrefill) {
  start({.max_sequences = 2, .max_batch_tokens = 2});
  backend->model->delay = std::chrono::milliseconds(20);
  const auto reply = post(kChat, stream(std::string(200, 'A')));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto before = std::chrono::steady_clock::now();
  reply->leave();
  wait_until_idle();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(500));
  EXPECT_EQ(reply->size(), 0u);
}

TEST_F(ServiceTest, AClientThatReadsSlowlyPauses) {
  start({.max_sequences = 2}, {.most_unsent = 2000});
  backend->model->delay = std::chrono::milliseconds(1);
  const std::string expected = text_of(post(kChat, stream("AB"))->wait());
  const auto slow = post(kChat, stream("AB"));
  slow->hold(true);
  for (int i = 0; i < 5000 && service->load().paused == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(service->load().paused, 1);
  EXPECT_GT(service->load().unsent_bytes, 2000u);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(slow->is_done());
  const size_t size = slow->size();
  // Others go on meanwhile.
  EXPECT_EQ(text_of(post(kChat, stream("AB"))->wait()), expected);
  EXPECT_EQ(slow->size(), size);
  slow->hold(false);
  EXPECT_EQ(text_of(slow->wait()), expected);
  wait_until_idle();
  EXPECT_EQ(service->load().paused, 0);
}

// With a single place: clients that do not read must not keep it from others.
TEST_F(ServiceTest, AClientThatReadsSlowlyHoldsNoPlace) {
  start({.max_sequences = 1}, {.most_unsent = 2000});
  backend->model->delay = std::chrono::milliseconds(1);
  const std::string expected = text_of(post(kChat, stream("AB"))->wait());
  std::vector<std::shared_ptr<RecordedReply>> slow;
  for (int64_t i = 1; i <= 3; ++i) {
    slow.push_back(post(kChat, stream("AB")));
    slow.back()->hold(true);
    for (int j = 0; j < 5000 && service->load().paused < i; ++j)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(service->load().paused, i);
  }
  EXPECT_EQ(text_of(post(kChat, stream("AB"))->wait()), expected);
  for (int i = 0; i < 2; ++i) slow[i]->hold(false);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(text_of(slow[i]->wait()), expected);
  // The third ends while it pauses. Places that were given back and taken again add up.
  service->end_all(ApiError(503, "over"));
  wait_until_idle();
  const auto running = post(kChat, stream("AB"));
  running->wait_for_bytes(1);
  const auto queued = post(kChat, stream("CD"));
  EXPECT_EQ(service->load().queued, 1);
  EXPECT_EQ(text_of(running->wait()), expected);
  EXPECT_EQ(queued->wait().status, 200);
  wait_until_idle();
}

// A thousand streams are gone through after a step, not whenever somebody comes.
TEST_F(ServiceTest, ARequestCostsNoLookAtTheOthers) {
  start({.max_sequences = 1});
  backend->model->delay = std::chrono::milliseconds(400);
  const auto running = post(kChat, stream("AB"));
  running->wait_for_bytes(1);
  const size_t before = running->looks();
  std::vector<std::shared_ptr<RecordedReply>> queued;
  for (int i = 0; i < 50; ++i) {
    queued.push_back(post(kChat, stream("CD", 1)));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(running->looks() - before, 5);
  backend->model->delay = std::chrono::milliseconds(0);
  for (const auto& reply : queued) EXPECT_EQ(reply->wait().status, 200);
  wait_until_idle();
}

// What large batches leave in the allocator's cache does not stay while nothing happens.
TEST_F(ServiceTest, AnIdleServerGivesMemoryBack) {
  start({}, {.idle_seconds = 0.1});
  constexpr int64_t kBytes = 32 << 20;
  for (int round = 0; round < 2; ++round) {
    zeros({kBytes}, {.dtype = kUInt8});  // freed at once, and kept
    EXPECT_EQ(post(kChat, stream("AB", 3))->wait().status, 200);
    const auto kept = [] { return memory_stats(Device()).reserved; };
    for (int i = 0; i < 5000 && kept() >= kBytes; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_LT(kept(), kBytes);
  }
}

TEST_F(ServiceTest, KeysTakeTurns) {
  start({.max_sequences = 1});
  backend->model->delay = std::chrono::milliseconds(1);
  std::mutex mutex;
  std::vector<std::shared_ptr<RecordedReply>> replies;
  for (int i = 0; i < 8; ++i) replies.push_back(post(kChat, stream("AB", 4), "greedy"));
  replies.push_back(post(kChat, stream("CD", 4), "modest"));
  replies.back()->wait();
  int done = 0;
  for (size_t i = 0; i < 8; ++i) done += replies[i]->is_done();
  EXPECT_LE(done, 3);  // the one that ran, the one whose turn was before, and perhaps one after
  for (const auto& reply : replies) EXPECT_EQ(reply->wait().status, 200);
}

TEST_F(ServiceTest, RefusesMoreThanMayWait) {
  start({.max_sequences = 1}, {.max_queued = 6, .max_queued_per_key = 3});
  backend->model->delay = std::chrono::milliseconds(2);
  std::vector<std::shared_ptr<RecordedReply>> replies;
  for (int i = 0; i < 4; ++i) replies.push_back(post(kChat, stream("AB", 50), "a"));
  const HttpResponse refused = post(kChat, stream("AB"), "a")->wait();
  EXPECT_EQ(refused.status, 429);
  EXPECT_GE(std::stoi(header_of(refused, "retry-after")), 1);
  EXPECT_EQ(Json::parse(refused.body)["error"]["type"], "rate_limit_error");
  for (int i = 0; i < 3; ++i) replies.push_back(post(kChat, stream("AB", 2), "b"));
  EXPECT_EQ(post(kChat, stream("AB"), "c")->wait().status, 429);
  for (const auto& reply : replies) EXPECT_EQ(reply->wait().status, 200);
  EXPECT_EQ(post(kChat, stream("AB", 2), "a")->wait().status, 200);
}

TEST_F(ServiceTest, DrainsAndEnds) {
  start({.max_sequences = 1});
  backend->model->delay = std::chrono::milliseconds(2);
  EXPECT_FALSE(service->load().is_ready);
  const auto running = post(kChat, stream("AB"));
  const auto queued = post(kChat, stream("CD"));
  EXPECT_TRUE(service->load().is_ready);
  running->wait_for_bytes(1);
  service->drain();
  EXPECT_FALSE(service->load().is_ready);
  const HttpResponse late = post(kChat, stream("EF"))->wait();
  EXPECT_EQ(late.status, 503);
  EXPECT_FALSE(header_of(late, "retry-after").empty());
  EXPECT_FALSE(running->is_done());
  service->end_all(ApiError(503, "the server is shutting down", {}, "shutting_down"));
  // In mid-stream the error is an event, before that it is a status.
  const auto events = events_of(running->wait().body);
  EXPECT_EQ(Json::parse(events.back())["error"]["message"], "the server is shutting down");
  EXPECT_EQ(queued->wait().status, 503);
  wait_until_idle();
  const std::string figures = service->metrics();
  EXPECT_NE(figures.find("reason=\"shutdown\"} 2\n"), std::string::npos) << figures;
}

TEST_F(ServiceTest, AnErrorInMidStreamIsAnEvent) {
  start();
  backend->model->delay = std::chrono::milliseconds(2);
  backend->model->fails_at = 20;
  const auto events = events_of(post(kChat, stream("AB"))->wait().body);
  ASSERT_GT(events.size(), 1u);
  const Json error = Json::parse(events.back())["error"];
  EXPECT_EQ(error["message"], "internal error");  // what happened is for the log
  EXPECT_EQ(error["type"], "server_error");
  backend->model->fails_at = backend->model->steps + 1;
  EXPECT_EQ(refused(kChat, chat("AB"), 500)["message"], "internal error");
  wait_until_idle();
}

TEST_F(ServiceTest, TimeIsOverInTheQueueAndInTheEngine) {
  start({.max_sequences = 1}, {.deadline = 0.15});
  backend->model->delay = std::chrono::milliseconds(5);
  const auto running = post(kChat, stream("AB"));
  const auto queued = post(kChat, stream("CD"));
  const auto events = events_of(running->wait().body);
  EXPECT_EQ(Json::parse(events[events.size() - 2])["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(queued->wait().status, 503);
}

// Of several answers, those that get no place in time end without a text; the others are kept.
TEST_F(ServiceTest, AnswersThatAreLateLeaveTheOthers) {
  start({.max_sequences = 1}, {.deadline = 1.2});
  backend->model->delay = std::chrono::milliseconds(100);
  for (const bool streams : {false, true}) {
    Json body = chat("AB", 7);  // the third answer does not begin
    body["n"] = 3;
    body["ignore_eos"] = true;
    body["stream"] = streams;
    const HttpResponse response = post(kChat, body)->wait();
    ASSERT_EQ(response.status, 200) << response.body;
    std::map<int, std::string> texts, reasons;
    const auto read = [&](const Json& choice, const char* part) {
      const int index = choice["index"];
      texts[index] += choice[part].value("content", "");
      if (choice["finish_reason"].is_string()) reasons[index] += choice["finish_reason"];
    };
    if (streams) {
      const auto events = events_of(response.body);
      EXPECT_EQ(events.back(), "[DONE]");
      for (const std::string& event : events)
        if (event != "[DONE]") read(Json::parse(event)["choices"][0], "delta");
    } else {
      const Json whole = Json::parse(response.body);
      for (const Json& choice : whole["choices"]) read(choice, "message");
    }
    EXPECT_EQ(texts[0].size(), 7u);
    EXPECT_LT(texts[1].size(), 7u);
    EXPECT_EQ(texts[2], "");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(reasons[i], "length") << i;
    wait_until_idle();
  }
}

TEST_F(ServiceTest, KnowsModelsByNameAndAlias) {
  start();
  Json body = chat("AB", 3);
  body["model"] = "gpt-toy";
  EXPECT_EQ(answer(kChat, body)["model"], "gpt-toy");
  body.erase("model");
  EXPECT_EQ(answer(kChat, body)["model"], "toy");
  body["model"] = "gpt-4";
  const Json error = refused(kChat, body, 404);
  EXPECT_EQ(error["code"], "model_not_found");
  EXPECT_NE(error["message"].get<std::string>().find("gpt-toy"), std::string::npos);
  const Json list = Json::parse(ask(*router, "GET", "/v1/models", "")->wait().body);
  EXPECT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][1]["root"], "toy");
  const Json one = Json::parse(ask(*router, "GET", "/v1/models/gpt-toy", "")->wait().body);
  EXPECT_EQ(one, list["data"][1]);
  EXPECT_EQ(ask(*router, "GET", "/v1/models/other", "")->wait().status, 404);
  const Json props = Json::parse(ask(*router, "GET", "/props", "")->wait().body);
  EXPECT_EQ(props["models"][0]["context"], 256);
  EXPECT_EQ(props["default_generation_settings"]["params"]["top_k"], 40);
}

TEST_F(ServiceTest, MetricsCountWhatWasDone) {
  start();
  answer(kChat, chat("ABCDEFGH", 10));
  answer(kChat, chat("ABCDEFGH", 10));
  wait_until_idle();
  const std::string text = ask(*router, "GET", "/metrics", "")->wait().body;
  const auto value = [&](const std::string& name) {
    const size_t at = text.find("\n" + name);
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(text.substr(text.find("} ", at) + 2));
  };
  EXPECT_EQ(value("tensora_prompt_tokens_total{"), 16);
  EXPECT_EQ(value("tensora_prefix_cache_hits_total{"), 7);
  EXPECT_GT(value("tensora_generation_tokens_total{"), 2);
  EXPECT_EQ(value("tensora_time_to_first_token_seconds_count{"), 2);
  EXPECT_EQ(value("tensora_e2e_request_latency_seconds_count{"), 2);
  EXPECT_EQ(value("tensora_request_prompt_tokens_sum{"), 16);
  EXPECT_EQ(value("tensora_num_requests_running{"), 0);
  // Every line is a comment or a figure, and every name has a type of its own.
  std::set<std::string> types;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(types.insert(line.substr(7)).second) << line;
    } else if (!line.starts_with("#")) {
      EXPECT_TRUE(line.starts_with("tensora_")) << line;
    }
  }
  EXPECT_GT(types.size(), 30u);
}

TEST_F(ServiceTest, AnIdleEngineGivesTheFirstTokenWithinTwoSteps) {
  start();
  backend->model->delay = std::chrono::milliseconds(150);
  backend->model->fails_at = 1000;  // steps are counted up to it
  const auto reply = post(kChat, stream("AB", 8));
  reply->wait_for_bytes(1);
  EXPECT_LE(backend->model->steps, 2);
  reply->leave();
  wait_until_idle();
}

// Answers of one prompt are computed together, but the prompt once: in blocks of 4 tokens.
TEST_F(ServiceTest, SeveralAnswersReadTheirPromptOnce) {
  start({.max_sequences = 8});
  backend->model->delay = std::chrono::microseconds(200);
  Json body = chat(std::string(42, 'A'), 5);
  body["n"] = 6;
  EXPECT_EQ(answer(kChat, body)["choices"].size(), 6u);
  wait_until_idle();
  EXPECT_EQ(backend->stats().prompt_tokens, 6 * 42);
  // One that is submitted later may find a part of the last block, which the first answer has
  // filled.
  EXPECT_GE(backend->stats().cached_tokens, 5 * 40);
  EXPECT_LE(backend->stats().cached_tokens, 5 * 41);
}

// Several models, of which one fits.
TEST(ModelPoolTest, UnloadsTheLeastRecentlyUsed) {
  std::atomic<int> loads = 0, alive = 0;
  struct Counted {
    explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Counted() { --count_; }
    std::atomic<int>& count_;
  };
  ServiceOptions options{.models_max = 2};
  for (const char* name : {"a", "b", "c"})
    options.models.push_back({.name = name, .load = [&] {
                                ++loads;
                                const auto counted = std::make_shared<Counted>(alive);
                                const auto backend = new ToyBackend();
                                return std::shared_ptr<llm::FrameworkBackend>(
                                    backend, [counted](ToyBackend* one) { delete one; });
                              }});
  options.models.push_back({.name = "broken", .load = []() -> std::shared_ptr<ToyBackend> {
                              fail("cannot read /secret/file");
                            }});
  const auto service = make_service(std::move(options));
  service->model("a");
  service->model("b");
  service->model("a");
  EXPECT_EQ(loads, 2);
  service->model("c");
  EXPECT_EQ(loads, 3);
  EXPECT_EQ(alive, 2);
  std::string loaded;
  for (const ModelEntry& entry : service->models())
    if (entry.is_loaded) loaded += entry.name;
  EXPECT_EQ(loaded, "ac");
  // What is in use is not unloaded; a request for another one waits until it is idle.
  ServedModelPtr a = service->model("a"), c = service->model("c");
  std::thread waiting([&] { service->model("b"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(loads, 3);
  a.reset();
  waiting.join();
  EXPECT_EQ(loads, 4);
  c.reset();
  try {
    service->model("broken");
    ADD_FAILURE() << "it was loaded";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 500);
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
  }
}

// A dashboard that asks for figures every second must not decide which model is unloaded.
TEST(ModelPoolTest, LooksAreNoUses) {
  int loads = 0;
  ServiceOptions options{.models_max = 2};
  for (const char* name : {"a", "b", "c"})
    options.models.push_back({.name = name, .load = [&] {
                                ++loads;
                                return std::make_shared<ToyBackend>();
                              }});
  const auto service = make_service(std::move(options));
  Router router;
  add_metrics_routes(router, *service);
  add_llama_routes(router, *service);
  add_ollama_routes(router, *service);
  const auto look = [&] {
    for (const char* path :
         {"/props", "/metrics", "/slots", "/lora-adapters", "/api/ps", "/api/tags"})
      EXPECT_EQ(ask(router, "GET", path, "")->wait().status, 200) << path;
  };
  look();
  EXPECT_EQ(loads, 0);
  service->model("b");
  service->model("a");
  look();
  service->model("c");
  EXPECT_EQ(loads, 3);
  EXPECT_TRUE(service->loaded_model("a"));
  EXPECT_FALSE(service->loaded_model("b"));
  EXPECT_FALSE(service->loaded_model("d"));
}

TEST(AnswerQueueTest, GivesPlacesInTurn) {
  AnswerQueue queue({.most = 8, .most_per_key = 4});
  const int lane = 0;
  EXPECT_TRUE(queue.start(&lane, 2, 2));
  EXPECT_FALSE(queue.start(&lane, 2, 1));
  queue.wait(&lane, 2, "a", nullptr, 3);
  queue.wait(&lane, 2, "b", nullptr, 1);
  EXPECT_THROW(queue.wait(&lane, 2, "a", nullptr, 2), ApiError);
  EXPECT_THROW(queue.wait(&lane, 2, "c", nullptr, 5), ApiError);
  EXPECT_EQ(queue.waiting(), 4);
  std::vector<size_t> order;
  for (int i = 0; i < 4; ++i) {
    queue.release(&lane);
    order.push_back(queue.next()->answer);
  }
  EXPECT_EQ(order, (std::vector<size_t>{0, 0, 1, 2}));  // a, b, a, a
  // One that goes on beyond the places delays the others.
  for (int i = 0; i < 2; ++i) queue.release(&lane);
  queue.resume(&lane, 2, 3);
  EXPECT_FALSE(queue.start(&lane, 2, 1));
  queue.wait(&lane, 2, "a", nullptr, 1);
  queue.release(&lane);
  EXPECT_EQ(queue.waiting(), 1);
  queue.release(&lane);
  EXPECT_TRUE(queue.next());
  queue.close();
  EXPECT_FALSE(queue.next());
}

}  // namespace
}  // namespace tensora::serve
