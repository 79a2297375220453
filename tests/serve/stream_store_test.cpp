#include "tensora/serve/stream_store.h"

#include <gtest/gtest.h>

#include <random>

#include "raw_client.h"
#include "tensora/serve/server.h"
#include "toy_service.h"

namespace tensora::serve {
namespace {

using namespace testing;

class StreamTest : public ::testing::Test {
 protected:
  void start(const StreamStoreOptions& streams, std::vector<ApiKey> keys = {}) {
    backend_ = std::make_shared<ToyBackend>();
    ServiceOptions service;
    service.models = {{.name = "toy", .load = [this] { return backend_; }}};
    service_ = make_service(std::move(service));
    ServerOptions options{.gate = {.keys = std::move(keys)}, .streams = streams};
    options.log = "";
    server_ = std::make_unique<Server>(options, *service_);
    service_->model("toy");
  }
  void TearDown() override { server_.reset(); }
  RawClient client() { return RawClient(server_->port()); }

  static std::string chat(const std::string& id, int tokens, bool streams = true,
                          const std::string& more = "") {
    const std::string body = Json({{"messages", {{{"role", "user"}, {"content", "abc"}}}},
                                   {"max_tokens", tokens},
                                   {"temperature", 0},
                                   {"ignore_eos", true},
                                   {"logprobs", true},  // so that many tokens are many bytes
                                   {"top_logprobs", 3},
                                   {"stream", streams}})
                                 .dump();
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Conversation-Id: " + id +
           "\r\nContent-Type: application/json\r\n" + more +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::string ask(const std::string& method, const std::string& id, const std::string& more = "") {
    return client()
        .send(method + " /v1/streams/" + id + " HTTP/1.1\r\nHost: localhost\r\n" + more +
              "Connection: close\r\n\r\n")
        .read_all(20);
  }
  /// A body that came in chunks.
  static std::string body_of(const std::string& answer) {
    std::string body;
    for (size_t at = answer.find("\r\n\r\n") + 4;;) {
      const size_t size = std::stoul(answer.substr(at), nullptr, 16);
      if (size == 0) return body;
      at = answer.find("\r\n", at) + 2;
      body += answer.substr(at, size);
      at += size + 2;
    }
  }
  bool is_idle() { return service_->load().answers == 0; }

  std::shared_ptr<ToyBackend> backend_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Server> server_;
};

TEST_F(StreamTest, GoOnWithoutTheirClient) {
  start({.max_streams = 4});
  backend_->model->delay = std::chrono::milliseconds(2);
  auto first = client();
  first.send(chat("talk-1", 60));
  first.read_until("data: ");
  first.reset();
  // Another client reads from the beginning, leaves, and a third one reads on.
  auto second = client();
  second.send("GET /v1/streams/talk-1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(status_of(second.read_until("data: ")), 200);
  second.close();
  EXPECT_TRUE(eventually([&] { return is_idle(); }, 20));
  EXPECT_EQ(backend_->stats().generated_tokens, 60);
  const std::string whole = body_of(ask("GET", "talk-1"));
  EXPECT_TRUE(whole.ends_with("data: [DONE]\n\n"));
  const auto events = events_of(whole);
  std::string text;
  for (size_t i = 0; i + 1 < events.size(); ++i)
    text += Json::parse(events[i])["choices"][0]["delta"].value("content", "");
  EXPECT_GT(text.size(), 50u);  // some of 60 tokens may stand for nothing
  std::mt19937 random(1);
  for (int i = 0; i < 10; ++i) {
    const size_t from = random() % (whole.size() + 1);
    EXPECT_EQ(body_of(ask("GET", "talk-1?from=" + std::to_string(from))), whole.substr(from));
  }
  EXPECT_EQ(status_of(ask("GET", "talk-1?from=" + std::to_string(whole.size() + 1))), 416);
  for (const char* query : {"?from=-1", "?from=", "?from=1x", "?to=1"})
    EXPECT_EQ(status_of(ask("GET", std::string("talk-1") + query)), 400) << query;
  EXPECT_EQ(status_of(ask("HEAD", "talk-1")), 405);
}

// A client that reads on while the answer is written gets every byte once.
TEST_F(StreamTest, AreReadOnWhileTheyAreWritten) {
  start({.max_streams = 4});
  backend_->model->delay = std::chrono::milliseconds(1);
  auto first = client();
  first.send(chat("x", 150));
  first.read_until("data: ");
  auto next = client();
  next.send("GET /v1/streams/x?from=100 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(next.read_until("data: ")), 200);
  EXPECT_FALSE(is_idle());
  // The first one is cut off, and sees that its answer is not whole.
  EXPECT_EQ(first.read_all(20).find("\r\n0\r\n\r\n"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return is_idle(); }, 20));
  const std::string whole = body_of(ask("GET", "x"));
  EXPECT_EQ(body_of("\r\n\r\n" +
                    [&] {
                      const std::string again = ask("GET", "x?from=100");
                      return again.substr(again.find("\r\n\r\n") + 4);
                    }()),
            whole.substr(100));
  EXPECT_NE(next.read_all(20).find("[DONE]"), std::string::npos);
}

TEST_F(StreamTest, BelongToTheirKey) {
  start({.max_streams = 4}, {{"alice", "sk-alice-1"}, {"bob", "sk-bob-12"}});
  const std::string alice = "Authorization: Bearer sk-alice-1\r\n",
                    bob = "Authorization: Bearer sk-bob-12\r\n";
  auto connection = client();
  connection.send(chat("same", 3, false, alice));
  EXPECT_EQ(status_of(connection.read_answer()), 200);
  EXPECT_EQ(status_of(ask("GET", "same")), 401);
  EXPECT_EQ(status_of(ask("GET", "same", bob)), 404);
  EXPECT_EQ(status_of(ask("DELETE", "same", bob)), 404);
  EXPECT_EQ(status_of(ask("GET", "same", alice)), 200);
  EXPECT_EQ(status_of(ask("DELETE", "same", alice)), 200);
  EXPECT_EQ(status_of(ask("GET", "same", alice)), 404);
}

TEST_F(StreamTest, AreBounded) {
  start({.max_streams = 2, .max_stream_bytes = 2048});
  backend_->model->delay = std::chrono::milliseconds(5);
  std::vector<RawClient> open;
  for (const char* id : {"a", "b"}) {
    open.push_back(client());
    open.back().send(chat(id, 200));
    open.back().read_until("data: ");
  }
  auto more = client();
  more.send(chat("c", 3));
  EXPECT_EQ(status_of(more.read_answer()), 429);
  auto same = client();
  same.send(chat("b", 3));
  EXPECT_EQ(status_of(same.read_answer()), 409);
  auto bad = client();
  bad.send(chat("a/b", 3));
  EXPECT_EQ(status_of(bad.read_answer()), 400);
  // Without the DELETE the answers would go on.
  EXPECT_EQ(status_of(ask("DELETE", "a")), 200);
  EXPECT_EQ(status_of(ask("DELETE", "b")), 200);
  EXPECT_TRUE(eventually([&] { return is_idle(); }));
  EXPECT_LT(backend_->stats().generated_tokens, 300);
  // Of a long answer the end is kept.
  backend_->model->delay = std::chrono::microseconds(0);
  auto last = client();
  last.send(chat("c", 100));
  last.read_until("[DONE]");
  const std::string gone = ask("GET", "c");
  EXPECT_EQ(status_of(gone), 410);
  const size_t at = gone.find("from byte ") + 10;
  const std::string kept =
      body_of(ask("GET", "c?from=" + std::to_string(std::stoul(gone.substr(at)))));
  EXPECT_GE(kept.size(), 2048u);
  EXPECT_LE(kept.size(), 2560u);
  EXPECT_TRUE(kept.ends_with("data: [DONE]\n\n"));
}

// A replay goes out as it is read: clients that ask for it again and again cost no megabytes each.
TEST_F(StreamTest, AreReplayedAsTheyAreRead) {
  StreamStore store({.max_streams = 1});
  const auto text = [](size_t size) {
    std::string out;
    for (size_t i = 0; out.size() < size; ++i) out += std::to_string(i) + ' ';
    return out;
  };
  const std::string whole = text(2 << 20);
  const auto first = std::make_shared<RecordedReply>();
  auto answer = store.keep("", "x", first);
  answer->begin({.body = whole.substr(0, 100)});
  answer->write(whole.substr(100));
  for (const bool has_ended : {false, true}) {
    if (has_ended) answer->end();
    std::vector<std::shared_ptr<RecordedReply>> readers;
    for (int i = 0; i < 5; ++i) {
      readers.push_back(std::make_shared<RecordedReply>());
      readers.back()->hold(true);
      store.resume("", "x", 50, readers.back());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const auto& reader : readers) {
      EXPECT_GT(reader->size(), 0u);
      EXPECT_LE(reader->size(), size_t{400} << 10);
    }
    if (!has_ended) {
      EXPECT_GT(answer->unsent(), size_t{1} << 20);  // so the answer pauses
    }
    readers.back()->hold(false);
    readers.back()->wait_for_bytes(whole.size() - 50);
    if (has_ended) readers.back()->wait();
    EXPECT_EQ(readers.back()->body(), whole.substr(50));
    EXPECT_EQ(readers.back()->is_done(), has_ended);
    EXPECT_LE(readers.front()->size(), size_t{400} << 10);  // cut off
  }
}

TEST_F(StreamTest, ExpireWithoutAClient) {
  start({.max_streams = 4, .retention = 0.2});
  backend_->model->delay = std::chrono::milliseconds(20);
  auto first = client();
  first.send(chat("x", 200));
  first.read_until("data: ");
  first.close();
  // 200 tokens would take 4 s.
  EXPECT_TRUE(eventually([&] { return is_idle(); }, 3));
  EXPECT_EQ(status_of(ask("GET", "x")), 404);
  EXPECT_LT(backend_->stats().generated_tokens, 200);
}

TEST_F(StreamTest, AreOffUnlessAskedFor) {
  start({});
  backend_->model->delay = std::chrono::milliseconds(5);
  auto first = client();
  first.send(chat("x", 200));
  first.read_until("data: ");
  first.close();
  EXPECT_TRUE(eventually([&] { return is_idle(); }));
  EXPECT_EQ(status_of(ask("GET", "x")), 404);
  EXPECT_LT(backend_->stats().generated_tokens, 200);
}

}  // namespace
}  // namespace tensora::serve
