#include "tensora/serve/http_server.h"

#include <algorithm>
#include <thread>

#include "http_server_fixture.h"
#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

using namespace testing;

TEST_F(HttpServerTest, AnswersARequest) {
  start();
  const std::string answer = ask(
      "POST /echo%20x/../y HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(status_of(answer), 500);  // nobody answers for that path
  const std::string echo =
      ask("POST /e%63ho?a=%20 HTTP/1.1\r\nHost: a\r\nX-Request-Id: my-id.1\r\nConnection: close\r\n"
          "Content-Length: 4\r\n\r\nbody");
  EXPECT_EQ(status_of(echo), 200);
  EXPECT_TRUE(echo.ends_with("\nbody")) << echo;
  EXPECT_NE(echo.find("POST /echo?a=%20\nhost=a\n"), std::string::npos) << echo;
  EXPECT_NE(echo.find("x-request-id: my-id.1\r\n"), std::string::npos) << echo;
  EXPECT_NE(echo.find("server: tensora\r\n"), std::string::npos);
  EXPECT_NE(echo.find("x-content-type-options: nosniff\r\n"), std::string::npos);
  EXPECT_NE(echo.find("connection: close\r\n"), std::string::npos);
}

TEST_F(HttpServerTest, ReplacesARequestIdThatIsNotSafe) {
  start();
  for (const std::string& id : {std::string(129, 'a'), std::string("a b"), std::string("<x>")}) {
    const std::string answer =
        ask("GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            "X-Request-Id: " +
            id + "\r\n\r\n");
    EXPECT_NE(answer.find("x-request-id: req_"), std::string::npos) << answer;
  }
}

TEST_F(HttpServerTest, StreamsInChunks) {
  start();
  const std::string answer = ask("GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("transfer-encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(answer.find("cache-control: no-cache\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n")) << answer;
}

TEST_F(HttpServerTest, GivesOldClientsNoChunks) {
  start();
  const std::string answer = ask("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.find("transfer-encoding"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("content-length"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nfirstsecond")) << answer;
}

TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  start();
  auto connection = client();
  connection.send("HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_NE(connection.read_until("\r\n\r\n").find("content-length: "), std::string::npos);
  connection.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(connection.read_until("\r\n\r\n")), 200);
  connection.send("GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(connection.read_all()), 200);  // nothing stood between the heads
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  std::string bytes;
  for (int i = 0; i < 200; ++i)
    bytes +=
        "POST /echo?" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  auto connection = client();
  connection.send(bytes);
  for (int i = 0; i < 200; ++i)
    EXPECT_NE(connection.read_answer().find("/echo?" + std::to_string(i) + "\n"),
              std::string::npos);
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(HttpServerTest, GoesOnAfterAClientSentFarAhead) {
  start();
  auto connection = client();
  connection.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const ReplyPtr reply = handler_.one_held();
  const std::string body(200 << 10, 'x');
  connection.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
  reply->send({.body = "held"});
  EXPECT_TRUE(connection.read_answer().ends_with("held"));
  EXPECT_TRUE(connection.read_answer().ends_with(body));
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  start();
  const std::string answer = ask(
      "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3;name=\"value\"\r\nabc\r\n2\r\nde\r\n0\r\nAuthorization: Bearer x\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("\nabcde")) << answer;
  EXPECT_EQ(answer.find("authorization"), std::string::npos) << "a trailer became a header";
}

TEST_F(HttpServerTest, TellsToContinue) {
  start();
  auto connection = client();
  connection.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(connection.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.send("ok");
  EXPECT_TRUE(connection.read_answer().ends_with("ok"));
  // A refusal by the head comes instead of it, and ends the connection.
  const std::string refused =
      ask("POST /early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(status_of(refused), 403);
  EXPECT_NE(refused.find("connection: close"), std::string::npos);
}

TEST_F(HttpServerTest, RefusesBodiesByTheirHeadsOnly) {
  start();
  auto connection = client();
  connection.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(connection.read_answer()), 403);
  connection.send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(connection.read_answer()), 200) << "without a body, the connection is good";
}

// Each body is small enough; together they are not. What was answered or given up counts no more.
TEST_F(HttpServerTest, LimitsTheBodiesThatAreBeingRead) {
  start({.most_body_bytes = 100'000});
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
      "Content-Length: 90000\r\n\r\n";
  for (int round = 0; round < 3; ++round) {
    RawClient first = client();
    first.send(head);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the head comes alone
    first.send(std::string(80'000, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    RawClient second = client();
    second.send(head);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::string refused = second.send(std::string(80'000, 'x')).read_all();
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 503")) << refused.substr(0, 200);
    if (round == 1) continue;  // vanishes
    EXPECT_TRUE(first.send(std::string(10'000, 'x')).read_all().starts_with("HTTP/1.1 200"));
  }
}

TEST_F(HttpServerTest, NoticesAClientThatVanishes) {
  start();
  for (const bool resets : {false, true}) {
    for (const bool has_begun : {false, true}) {
      const int before = handler_.gone;
      auto connection = client();
      connection.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
      const ReplyPtr reply = handler_.one_held();
      if (has_begun) {
        reply->begin({});
        connection.read_until("\r\n\r\n");
      }
      EXPECT_FALSE(reply->is_gone());
      resets ? connection.reset() : connection.close();
      EXPECT_TRUE(eventually([&] { return handler_.gone == before + 1; }, 1));
      EXPECT_TRUE(reply->is_gone());
      reply->write("nothing happens");
      reply->end();
      EXPECT_EQ(reply->unsent(), 0);
      bool is_told = false;
      reply->on_gone([&] { is_told = true; });
      EXPECT_TRUE(is_told);
    }
  }
  EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
  EXPECT_EQ(server_->active(), 0);
}

TEST_F(HttpServerTest, CoalescesForASlowReader) {
  start();
  auto connection = client(4096);
  connection.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const ReplyPtr reply = handler_.one_held();
  reply->begin({});
  size_t written = 0;
  while (reply->unsent() < (256 << 10) && written < (64 << 20)) {
    reply->write(std::string(4096, 'x'));
    written += 4096;
  }
  EXPECT_GE(reply->unsent(), 256 << 10) << "the socket took all";
  reply->end();
  const std::string answer = connection.read_until("\r\n0\r\n\r\n", 10);
  EXPECT_EQ(static_cast<size_t>(std::count(answer.begin(), answer.end(), 'x')) - 3, written)
      << "three stand in the head";
  EXPECT_TRUE(eventually([&] { return reply->unsent() == 0; }));
}

TEST_F(HttpServerTest, DropsAClientThatTakesNothing) {
  start({.stalled_seconds = 0.15});
  auto connection = client(4096);
  connection.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const ReplyPtr reply = handler_.one_held();
  ::usleep(200'000);  // an answer that has not begun is not the client's fault
  EXPECT_FALSE(reply->is_gone());
  reply->begin({});
  reply->write(std::string(16 << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return reply->is_gone(); }, 2));
  EXPECT_TRUE(eventually([&] { return handler_.gone == 1; }, 2));
}

TEST_F(HttpServerTest, LosesNoReplyThatIsDropped) {
  start();
  EXPECT_EQ(status_of(ask("GET /drop HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), 500);
  const std::string thrown = ask("GET /throw HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(thrown), 500);
  EXPECT_EQ(thrown.find("secret"), std::string::npos);
  const std::string half = ask("GET /drop-late HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_NE(half.find("begun"), std::string::npos);
  EXPECT_FALSE(half.ends_with("0\r\n\r\n")) << "a client would take it for whole";
}

TEST_F(HttpServerTest, ClosesSlowSenders) {
  start({.header_seconds = 0.1, .body_seconds = 0.1, .idle_seconds = 0.1});
  EXPECT_EQ(status_of(ask("GET /echo HTTP/1.1\r\nHo")), 408);
  EXPECT_EQ(handler_.last_bad, 408);
  EXPECT_EQ(status_of(ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab")), 408);
  EXPECT_EQ(ask(""), "") << "who says nothing gets nothing";
  auto idle = client();
  idle.send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(idle.read_answer()), 200);
  EXPECT_EQ(idle.read_all(), "");
  // Bytes that trickle in do not extend the time.
  auto slow = client();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 60 && slow.is_silent(0.01); ++i) slow.send(i == 0 ? "GET /" : "a");
  EXPECT_EQ(status_of(slow.read_all()), 408);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(HttpServerTest, TurnsAwayConnectionsBeyondTheLimit) {
  start({.max_connections = 3});
  std::vector<RawClient> inside;
  for (int i = 0; i < 3; ++i) {
    inside.push_back(client());
    inside.back().send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(status_of(inside.back().read_answer()), 200);
  }
  const std::string answer = ask("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(answer), 503);
  EXPECT_NE(answer.find("retry-after: 1\r\n"), std::string::npos);
  inside.clear();
  EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
  EXPECT_EQ(status_of(ask("GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), 200);
}

TEST_F(HttpServerTest, FinishesAnswersAfterItStopsListening) {
  start();
  auto running = client();
  running.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const ReplyPtr reply = handler_.one_held();
  auto other = client();
  other.send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of(other.read_answer()), 200);
  server_->stop_listening();
  EXPECT_TRUE(eventually([&] {
    try {
      client();
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
  EXPECT_FALSE(server_->wait_until_idle(0.02));
  other.send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_NE(other.read_all().find("connection: close\r\n"), std::string::npos);
  reply->send({.body = "late"});
  EXPECT_TRUE(running.read_all().ends_with("late"));
  EXPECT_TRUE(server_->wait_until_idle(1));
}

TEST_F(HttpServerTest, RepliesOutliveTheServer) {
  start();
  auto connection = client();
  connection.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const ReplyPtr reply = handler_.one_held();
  server_.reset();
  EXPECT_TRUE(reply->is_gone());
  EXPECT_EQ(handler_.gone, 1);
  reply->begin({});
  reply->write("x");
  reply->end();
}

TEST_F(HttpServerTest, CarriesManyStreams) {
  for (const int threads : {1, 3}) {
    start({.threads = threads});
    constexpr size_t kStreams = 300;
    constexpr int kEvents = 30;
    std::vector<RawClient> clients;
    for (size_t i = 0; i < kStreams; ++i) {
      clients.push_back(client());
      clients.back().send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(handler_.mutex);
      return handler_.held.size() == kStreams;
    }));
    std::vector<ReplyPtr> replies;
    replies.swap(handler_.held);
    for (const auto& reply : replies) reply->begin({});
    for (int event = 0; event < kEvents; ++event)
      for (const auto& reply : replies) reply->write("data: token\n\n");
    for (const auto& reply : replies) reply->end();
    for (RawClient& one : clients) {
      const std::string answer = one.read_until("0\r\n\r\n");
      size_t count = 0;
      for (size_t at = 0; (at = answer.find("data: token", at)) != std::string::npos; ++at) ++count;
      EXPECT_EQ(count, kEvents);
      one.send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for (RawClient& one : clients) EXPECT_EQ(status_of(one.read_answer()), 200);
    EXPECT_EQ(server_->connections(), kStreams);
  }
}

// A step of the engine writes to all streams; a request that comes then does not wait for all.
TEST_F(HttpServerTest, AnswersBetweenTheWritesOfAStep) {
  start();
  constexpr size_t kStreams = 200;
  std::vector<RawClient> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(client());
    clients.back().send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(handler_.mutex);
    return handler_.held.size() == kStreams;
  }));
  for (const auto& reply : handler_.held) reply->begin({});
  for (RawClient& one : clients) one.read_until("\r\n\r\n");
  auto other = client();
  other.send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  other.read_answer();
  auto busy = client();
  busy.send("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return handler_.is_busy.load(); }));
  for (const auto& reply : handler_.held) reply->write("data: token\n\n");
  other.send("GET /count HTTP/1.1\r\nHost: a\r\n\r\n");
  handler_.is_busy = false;
  const std::string answer = other.read_answer();
  EXPECT_GE(std::stoi(answer.substr(answer.find("\r\n\r\n") + 4)), 100) << answer;
  for (RawClient& one : clients) EXPECT_NE(one.read_until("token\n\n"), "");
}

// See Note [The receiving thread].
TEST_F(HttpServerTest, QuickRequestsDoNotWaitForAnswers) {
  start();
  auto known = client();
  known.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n").read_answer();
  auto busy = client();
  busy.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n").read_answer();
  busy.send("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return handler_.is_busy.load(); }));
  auto fresh = client();
  for (RawClient* one : {&known, &fresh})
    EXPECT_TRUE(
        one->send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n").read_answer().ends_with("quick"));
  EXPECT_EQ(status_of(ask("GET /early HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), 403);
  handler_.is_busy = false;
  EXPECT_TRUE(busy.read_answer().ends_with("done"));
  busy.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n");  // answered where the connection is now
  EXPECT_TRUE(busy.read_answer().ends_with("quick"));
}

// Whatever of a request is there when its connection changes the thread.
TEST_F(HttpServerTest, RequestsSurviveTheChangeOfThread) {
  start({.threads = 3});
  const std::string quick = "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string echo = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef";
  for (size_t cut = 1; cut < echo.size(); cut += 5) {
    auto one = client();
    one.send(quick).read_answer();
    one.send(echo.substr(0, cut));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    one.send(echo.substr(cut) + echo + quick);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.read_answer().ends_with("abcdef")) << cut;
    EXPECT_TRUE(one.read_answer().ends_with("quick")) << cut;
  }
}

// Two requests in one packet: the first one is answered by the receiving thread, which watches the
// socket when it comes to the second one.
TEST_F(HttpServerTest, ARequestBehindAQuickOneChangesTheThread) {
  start();
  const std::string quick = "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string thread = "POST /thread HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
  for (int i = 0; i < 20; ++i) {
    auto one = client();
    one.send(quick + thread + (i % 2 == 0 ? "ab" : "a"));
    EXPECT_TRUE(one.read_answer().ends_with("quick"));
    if (i % 2 != 0) one.send("b");
    const std::string answer = one.read_answer();
    EXPECT_TRUE(answer.ends_with("serve-io")) << answer;
    EXPECT_TRUE(one.send(quick).read_answer().ends_with("quick"));
  }
}

// What is written in a batch is sent at its end, or before where there is much.
TEST_F(HttpServerTest, ABatchIsSentAtItsEnd) {
  start();
  std::vector<RawClient> clients;
  for (size_t i = 0; i < 40; ++i) {
    clients.push_back(client());
    clients.back().send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard lock(handler_.mutex);
      return handler_.held.size() == i + 1;
    }));
  }
  const auto are_sent = [&](size_t begin, size_t end) {
    return std::all_of(handler_.held.begin() + static_cast<ptrdiff_t>(begin),
                       handler_.held.begin() + static_cast<ptrdiff_t>(end),
                       [](const ReplyPtr& one) { return one->unsent() == 0; });
  };
  {
    const WriteBatch batch;
    for (size_t i = 0; i < 10; ++i) handler_.held[i]->begin({.body = "few"});
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(are_sent(0, 1));
    for (size_t i = 10; i < 40; ++i) handler_.held[i]->begin({.body = "many"});
    EXPECT_TRUE(eventually([&] { return are_sent(0, 32); }));
    handler_.held[0]->write("again");
  }
  EXPECT_TRUE(eventually([&] { return are_sent(0, 40); }));
  handler_.held[1]->write("without a batch");
  EXPECT_TRUE(eventually([&] { return are_sent(1, 2); }));
}

TEST_F(HttpServerTest, ClosesWhileConnectionsChangeTheThread) {
  for (int round = 0; round < 20; ++round) {
    start({.threads = 2});
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(client());
      clients.back().send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    server_.reset();
    handler_.held.clear();
  }
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  start();
  EXPECT_THROW(HttpServer({.port = server_->port()}, handler_), Error);
  EXPECT_THROW(HttpServer({.host = "no.such.host.invalid"}, handler_), Error);
  EXPECT_THROW(HttpServer({.tls_certificate = "x"}, handler_), Error);
  EXPECT_THROW(HttpServer({.tls_certificate = "/no/file", .tls_key = "/no/file"}, handler_), Error);
}

}  // namespace
}  // namespace tensora::serve
