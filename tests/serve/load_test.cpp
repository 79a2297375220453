#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "certificate.h"
#include "tensora/base/check.h"
#include "tensora/serve/http_server.h"
#include "tensora/serve/load_reader.h"
#include "tensora/serve/load_report.h"
#include "tensora/serve/load_requests.h"

namespace tensora::serve {
namespace {

TEST(LoadReader, ReadsAllFramingsHoweverTheyAreCut) {
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nA: "
      "b\r\n\r\n";
  const std::string sized = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno";
  const std::string open = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nrest";
  for (const auto& [text, status, body] :
       {std::tuple{chunked, 200, "hello!"}, {sized, 404, "no"}, {open, 200, "rest"}})
    for (size_t step = 1; step <= text.size(); ++step) {
      ResponseReader reader;
      std::string got;
      for (size_t i = 0; i < text.size(); i += step)
        ASSERT_TRUE(reader.push(std::string_view(text).substr(i, step),
                                [&](std::string_view part) { got += part; }));
      EXPECT_EQ(reader.is_whole(), text != open) << step;
      EXPECT_TRUE(reader.close());
      EXPECT_EQ(got, body) << step;
      EXPECT_EQ(reader.status(), status);
    }
  ResponseReader cut, wrong;
  EXPECT_TRUE(cut.push(chunked.substr(0, 60), [](std::string_view) {}));
  EXPECT_FALSE(cut.close());
  EXPECT_FALSE(wrong.push("SSH-2.0-x\r\n\r\n", [](std::string_view) {}));
}

TEST(LoadReader, FindsEventsAndTheirText) {
  EventReader reader;
  std::vector<std::string> got;
  const std::string text = "data: {\"a\"}\n\n: ping\n\ndata:[DONE]\r\n\r\n";
  for (const char letter : text)
    reader.push(std::string(1, letter), [&](std::string_view data) { got.emplace_back(data); });
  EXPECT_EQ(got, (std::vector<std::string>{"{\"a\"}", "[DONE]"}));
  EXPECT_TRUE(has_text(R"({"choices":[{"index":0,"text":" a"}]})"));
  EXPECT_TRUE(has_text(R"({"delta":{"content":null,"reasoning_content": "x"}})"));
  EXPECT_FALSE(has_text(R"({"choices":[{"index":0,"text":"","finish_reason":"stop"}]})"));
  EXPECT_FALSE(has_text(R"({"delta":{"role":"assistant","content":null}})"));
}

TEST(LoadReport, ComputesNumpysStatistics) {
  // numpy.mean, median, std and percentile of [1, 2, 4, 8, 16].
  const Distribution found = distribution_of({16, 1, 8, 2, 4}, {25, 90, 99});
  EXPECT_DOUBLE_EQ(found.mean, 6.2);
  EXPECT_DOUBLE_EQ(found.median, 4);
  EXPECT_NEAR(found.deviation, 5.455272678794342, 1e-12);
  EXPECT_DOUBLE_EQ(found.percentiles[0], 2);
  EXPECT_NEAR(found.percentiles[1], 12.8, 1e-12);
  EXPECT_NEAR(found.percentiles[2], 15.68, 1e-12);
  EXPECT_EQ(distribution_of({}, {99}).percentiles, std::vector<double>{0});
}

TEST(LoadReport, NamesTheFiguresAsVllmDoes) {
  LoadPlan plan;
  plan.requests = 3;
  LoadResult result;
  result.seconds = 2;
  // Two answers: the first token after 100 ms, the last of 5 and 3 tokens after 500 and 300 ms.
  result.requests = {{.is_complete = true,
                      .status = 200,
                      .begin = 0,
                      .first = 0.1,
                      .last = 0.5,
                      .prompt_tokens = 7,
                      .output_tokens = 5,
                      .events = 5,
                      .gaps = {0.1f, 0.1f, 0.1f, 0.1f}},
                     {.is_complete = true,
                      .status = 200,
                      .begin = 1,
                      .first = 1.1,
                      .last = 1.3,
                      .prompt_tokens = 7,
                      .output_tokens = 3,
                      .events = 2,
                      .gaps = {0.2f}},
                     {.status = 429, .error = "full", .begin = 1},
                     {.manner = Manner::rubbish, .status = 400}};
  plan.rate = 2;
  plan.last_rate = 30;
  const auto report = load_report(plan, result, {}, {50, 99}, {.e2el = 400}, true);
  EXPECT_EQ(report["ramp_up_strategy"], "linear");
  EXPECT_EQ(report["ramp_up_end_rps"], 30);
  EXPECT_EQ(report["completed"], 2);
  EXPECT_EQ(report["failed"], 1);
  EXPECT_EQ(report["errors"]["full"], 1);
  EXPECT_EQ(report["rubbish_refused"], 1);
  EXPECT_EQ(report["total_input_tokens"], 14);
  EXPECT_EQ(report["total_output_tokens"], 8);
  EXPECT_DOUBLE_EQ(report["request_throughput"], 1);
  EXPECT_DOUBLE_EQ(report["request_goodput"], 0.5);
  EXPECT_DOUBLE_EQ(report["output_throughput"], 4);
  EXPECT_DOUBLE_EQ(report["events_per_second"], 3.5);
  EXPECT_NEAR(report["mean_ttft_ms"], 100, 1e-9);
  EXPECT_NEAR(report["mean_e2el_ms"], 400, 1e-9);
  EXPECT_NEAR(report["mean_tpot_ms"], 100, 1e-9);  // 400 / 4 and 200 / 2
  EXPECT_NEAR(report["mean_itl_ms"], 120, 1e-4);   // of five gaps
  EXPECT_NEAR(report["p99_itl_ms"], 196, 1e-3);
  EXPECT_EQ(report["output_lens"], (std::vector<int64_t>{5, 3, 0}));
}

TEST(LoadReport, MeasuresAProcess) {
  const ProcessUse use = process_use(getpid());
  EXPECT_GT(use.resident_bytes, 1 << 20);
  EXPECT_GE(use.threads, 1);
  EXPECT_THROW(process_use(1 << 30), Error);
}

TEST(LoadRequests, ArriveAtTheRate) {
  LoadPlan plan;
  plan.requests = 4000;
  EXPECT_EQ(arrival_times(plan), std::vector<double>(4000));
  plan.rate = 50;
  for (const double burstiness : {0.5, 1.0, 4.0}) {
    plan.burstiness = burstiness;
    const std::vector<double> times = arrival_times(plan);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_NEAR(times.back(), 80, 8) << burstiness;
  }
  plan.last_rate = 200;  // the second half comes faster
  const std::vector<double> ramp = arrival_times(plan);
  EXPECT_GT(ramp[2000], 1.3 * (ramp[3999] - ramp[2000]));
}

TEST(LoadRequests, AreTheSameForASeed) {
  LoadPlan plan;
  plan.vanishing = plan.slow = plan.rubbish = 0.2;
  plan.length_spread = 0.5;
  RequestMaker one(plan), two(plan);
  int counts[4] = {};
  for (int i = 0; i < 500; ++i) {
    const RequestMaker::Made made = one.next();
    EXPECT_EQ(made.bytes, two.next().bytes);
    ++counts[static_cast<int>(made.manner)];
  }
  for (const int count : counts) EXPECT_GT(count, 50);
}

// A server that streams eight tokens in three events, fails for max_tokens 1, and knows /health.
class Toy final : public HttpHandler {
 public:
  std::optional<HttpResponse> answer_head(const HttpRequest& /*head*/) override { return {}; }
  bool is_quick(const HttpRequest& head) const override { return head.path == "/health"; }
  void handle(HttpRequest request, ReplyPtr reply) override {
    if (request.path == "/health") return reply->send({.body = "{}"});
    const auto body = nlohmann::json::parse(request.body, nullptr, false);
    if (request.path != "/v1/completions" || !body.is_object() || !body["prompt"].is_array())
      return reply->send({.status = 400, .body = R"({"error":{"message":"rubbish"}})"});
    ++asked;
    reply->begin({.content_type = "text/event-stream"});
    for (int i = 0; i < 3; ++i)
      reply->write("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n");
    if (body["max_tokens"] == 1)
      reply->write("data: {\"error\":{\"message\":\"broken\"}}\n\n");
    else
      reply->write(
          "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":8}}"
          "\n\ndata: [DONE]\n\n");
    reply->end();
  }
  void on_bad_request(std::string_view, int, std::string_view) override { ++bad; }
  std::atomic<int> asked = 0, bad = 0;
};

class LoadTest : public ::testing::Test {
 protected:
  LoadTest() : server_({}, toy_) {
    plan_.port = server_.port();
    plan_.requests = 40;
    plan_.concurrency = 8;
    plan_.prompt_tokens = 4;
    plan_.output_tokens = 8;
    plan_.patience = 0.1;
  }
  Toy toy_;
  HttpServer server_;
  LoadPlan plan_;
};

TEST_F(LoadTest, DrivesStreamsAndCountsThem) {
  const LoadResult result = run_load(plan_);
  ASSERT_EQ(result.requests.size(), 40u);
  for (const RequestRecord& one : result.requests) {
    EXPECT_TRUE(one.is_complete) << one.error;
    EXPECT_EQ(one.output_tokens, 8);
    EXPECT_EQ(one.events, 3);
    EXPECT_EQ(one.gaps.size(), 2u);
    EXPECT_GE(one.first, one.begin);
  }
  EXPECT_EQ(toy_.asked, 40);
  EXPECT_EQ(result.most_at_once, 8);
  EXPECT_EQ(result.connections, 8);  // which are used again
  EXPECT_FALSE(result.health.empty());
}

TEST_F(LoadTest, SharesTheStreamsAmongThreads) {
  plan_.threads = 3;
  LoadResult result = run_load(plan_);
  EXPECT_EQ(result.threads, 3);
  for (const RequestRecord& one : result.requests) EXPECT_TRUE(one.is_complete) << one.error;
  EXPECT_EQ(toy_.asked, 40);
  EXPECT_LE(result.most_at_once, 8);
  plan_.concurrency = 0;  // an open loop, with clients that misbehave
  plan_.rate = 2000;
  plan_.requests = 100;
  plan_.vanishing = plan_.rubbish = 0.2;
  plan_.slow = 0.03;
  for (const RequestRecord& one : run_load(plan_).requests)
    EXPECT_TRUE(one.is_complete || one.manner != Manner::proper) << one.error;
  plan_.vanishing = plan_.rubbish = plan_.slow = 0;
  plan_.threads = 64;  // more than streams
  plan_.rate = std::numeric_limits<double>::infinity();
  plan_.concurrency = 2;
  plan_.requests = 5;
  result = run_load(plan_);
  EXPECT_EQ(result.threads, 2);
  EXPECT_LE(result.most_at_once, 2);
}

TEST_F(LoadTest, TellsFailures) {
  plan_.output_tokens = 1;
  for (const RequestRecord& one : run_load(plan_).requests) {
    EXPECT_FALSE(one.is_complete);
    EXPECT_EQ(one.error, "broken");
  }
  plan_.port = 1;
  EXPECT_THROW(run_load(plan_), Error);
}

TEST_F(LoadTest, MisbehavesAndComesToAnEnd) {
  plan_.requests = 100;
  plan_.vanishing = plan_.rubbish = 0.2;
  plan_.slow = 0.03;
  const LoadResult result = run_load(plan_);
  for (const RequestRecord& one : result.requests) {
    if (one.manner == Manner::proper || one.manner == Manner::rubbish) {
      EXPECT_EQ(one.is_complete, one.manner == Manner::proper) << one.error;
    }
  }
  plan_.vanishing = plan_.slow = plan_.rubbish = 0;
  for (const RequestRecord& one : run_load(plan_).requests)
    EXPECT_TRUE(one.is_complete) << one.error;
}

TEST_F(LoadTest, SpeaksTls) {
  const serve::testing::Certificate certificate;
  if (certificate.file.empty()) GTEST_SKIP() << "needs the program openssl";
  Toy toy;
  HttpServer server({.tls_certificate = certificate.file, .tls_key = certificate.key}, toy);
  plan_.port = server.port();
  plan_.tls = std::make_shared<TlsClient>(TlsClient::Options{.authorities = certificate.file});
  LoadResult result = run_load(plan_);
  for (const RequestRecord& one : result.requests) {
    EXPECT_TRUE(one.is_complete) << one.error;
    EXPECT_EQ(one.events, 3);
  }
  EXPECT_EQ(toy.asked, 40);
  EXPECT_FALSE(result.health.empty());
  EXPECT_EQ(result.failed_health, 0);
  EXPECT_LT(result.client_cpu_seconds, 2);  // it does not spin while it shakes hands
  plan_.requests = 100;
  plan_.vanishing = plan_.rubbish = 0.2;
  plan_.slow = 0.03;
  for (const RequestRecord& one : run_load(plan_).requests)
    EXPECT_TRUE(one.is_complete || one.manner != Manner::proper) << one.error;
  // A certificate that nobody vouches for, unless that does not matter.
  plan_.vanishing = plan_.rubbish = plan_.slow = 0;
  plan_.tls = std::make_shared<TlsClient>(TlsClient::Options{});
  try {
    run_load(plan_);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("certificate"), std::string::npos) << error.what();
  }
  plan_.tls = std::make_shared<TlsClient>(TlsClient::Options{.verifies = false});
  EXPECT_TRUE(run_load(plan_).requests[0].is_complete);
  plan_.tls = nullptr;
  EXPECT_THROW(run_load(plan_), Error);
  EXPECT_THROW(TlsClient({.authorities = "/no/file"}), Error);
}

}  // namespace
}  // namespace tensora::serve
