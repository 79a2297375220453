#include "tensora/serve/front_desk.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "raw_client.h"

namespace tensora::serve {
namespace {

HttpResponse other_error(const ApiError& error) {
  return {.status = error.status, .body = std::string("other: ") + error.what()};
}

class FrontDeskTest : public testing::Test {
 protected:
  FrontDeskTest() {
    const auto answer = [](Exchange& exchange) {
      exchange.reply->send({.body = exchange.key + "|" + exchange.parameter});
    };
    router_.add(
        {.method = "GET", .path = "/open", .handle = answer, .is_public = true, .is_quick = true});
    router_.add({.method = "GET", .path = "/models/{id}", .handle = answer});
    router_.add({.method = "POST", .path = "/work", .handle = answer});
    router_.add({.method = "POST",
                 .path = "/wrong",
                 .handle = [](Exchange&) { throw ApiError(422, "not like that"); },
                 .error = other_error});
    router_.add({.method = "POST", .path = "/bug", .handle = [](Exchange&) {
                   throw std::runtime_error("a secret");
                 }});
    router_.add({.method = "POST", .path = "/long", .handle = [this](Exchange& exchange) {
                   most_reading_ = std::max(most_reading_.load(), ++reading_);
                   for (int i = 0; i < 2000 && !may_end_; ++i)
                     std::this_thread::sleep_for(std::chrono::milliseconds(5));
                   --reading_;
                   exchange.reply->send({.body = "long"});
                 }});
    router_.add({.method = "POST", .path = "/hold", .handle = [this](Exchange& exchange) {
                   held_ = exchange.reply;
                   ++holding_;
                 }});
  }
  void start(GateOptions options = {}, int threads = 2, size_t waiting = 100) {
    log_file_ = std::filesystem::path(testing::TempDir()) /
                ("tensora_front_desk_" + std::to_string(::getpid()) + ".log");
    std::filesystem::remove(log_file_);
    log_ = std::make_shared<AccessLog>(log_file_);
    gate_ = std::make_shared<Gate>(std::move(options));
    pool_ = std::make_unique<WorkerPool>(threads, waiting);
    desk_ = std::make_unique<FrontDesk>(router_, gate_, *pool_, log_);
    server_ = std::make_unique<HttpServer>(HttpServerOptions{}, *desk_);
  }
  void TearDown() override {
    server_.reset();
    pool_.reset();
    held_.reset();
    desk_.reset();
    log_.reset();
    std::filesystem::remove(log_file_);
  }
  std::string ask(const std::string& method_and_path, const std::string& headers = "",
                  const std::string& host = "localhost") {
    return RawClient(server_->port())
        .send(method_and_path + " HTTP/1.1\r\nHost: " + host +
              "\r\nContent-Type: application/json\r\nConnection: close\r\n" + headers + "\r\n")
        .read_all();
  }
  std::string log_lines() {
    server_.reset();
    desk_.reset();
    pool_.reset();
    log_.reset();  // writes what waits
    std::ifstream file(log_file_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Router router_;
  std::filesystem::path log_file_;
  std::shared_ptr<AccessLog> log_;
  std::shared_ptr<Gate> gate_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<FrontDesk> desk_;
  std::unique_ptr<HttpServer> server_;
  ReplyPtr held_;
  std::atomic<int> holding_ = 0, reading_ = 0, most_reading_ = 0;
  std::atomic<bool> may_end_ = false;
};

TEST_F(FrontDeskTest, LeadsToRoutes) {
  start();
  EXPECT_TRUE(ask("GET /open").ends_with("|"));
  EXPECT_TRUE(ask("GET /models/a/b%20c").ends_with("|a/b c"));
  EXPECT_EQ(status_of(ask("GET /nothing")), 404);
  const std::string wrong_method = ask("DELETE /models/a");
  EXPECT_EQ(status_of(wrong_method), 405);
  EXPECT_NE(wrong_method.find("allow: GET, OPTIONS\r\n"), std::string::npos) << wrong_method;
  EXPECT_EQ(status_of(ask("GET /work")), 405);
  const std::string head = ask("HEAD /open");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST_F(FrontDeskTest, AnswersWhatHandlersThrow) {
  start();
  const std::string wrong = ask("POST /wrong");
  EXPECT_EQ(status_of(wrong), 422);
  EXPECT_TRUE(wrong.ends_with("other: not like that"));
  const std::string bug = ask("POST /bug", "X-Request-Id: bug-1\r\n");
  EXPECT_EQ(status_of(bug), 500);
  EXPECT_EQ(bug.find("secret"), std::string::npos);
  const std::string lines = log_lines();
  EXPECT_NE(lines.find(R"("id":"bug-1","message":"a secret")"), std::string::npos) << lines;
}

TEST_F(FrontDeskTest, DeniesByDefault) {
  start({.keys = {{"alice", "sk-alice-1"}}});
  for (const Route& route : router_.routes()) {
    const std::string path = route.path.substr(0, route.path.find('{')) + "x";
    const std::string at = route.path.find('{') == std::string::npos ? route.path : path;
    EXPECT_EQ(status_of(ask(route.method + " " + at)), route.is_public ? 200 : 401) << at;
  }
  EXPECT_EQ(status_of(ask("GET /nothing")), 401) << "what there is, is nobody's business";
  EXPECT_EQ(status_of(ask("DELETE /work")), 401);
  EXPECT_TRUE(ask("POST /work", "Authorization: Bearer sk-alice-1\r\n").ends_with("alice|"));
  // The body of a stranger is not even read.
  const std::string refused =
      ask("POST /work", "Expect: 100-continue\r\nContent-Length: 1000000\r\n");
  EXPECT_EQ(status_of(refused), 401);
  EXPECT_NE(refused.find("www-authenticate: Bearer\r\n"), std::string::npos);
}

TEST_F(FrontDeskTest, AnswersPreflights) {
  start({.keys = {{"alice", "sk-alice-1"}}, .cors_origins = {"https://chat.example"}});
  const std::string origin = "Origin: https://chat.example\r\n";
  const std::string allowed = ask("OPTIONS /work", origin);
  EXPECT_EQ(status_of(allowed), 204);
  EXPECT_NE(allowed.find("access-control-allow-methods: POST\r\n"), std::string::npos) << allowed;
  EXPECT_EQ(allowed.find("content-length"), std::string::npos);
  EXPECT_EQ(status_of(ask("OPTIONS /work", "Origin: https://evil.example\r\n")), 403);
  EXPECT_EQ(status_of(ask("OPTIONS *")), 204);
  // The page may read answers and errors.
  for (const std::string key : {"Authorization: Bearer sk-alice-1\r\n", ""})
    EXPECT_NE(ask("POST /work", origin + key)
                  .find("access-control-allow-origin: https://chat.example\r\n"),
              std::string::npos);
}

TEST_F(FrontDeskTest, ChecksHostOriginAndType) {
  start();
  EXPECT_EQ(status_of(ask("GET /open", "", "evil.example")), 403);
  EXPECT_EQ(status_of(ask("GET /open", "Origin: http://evil.example\r\n")), 403);
  EXPECT_EQ(status_of(ask("POST /work", "Sec-Fetch-Site: cross-site\r\n")), 403);
  EXPECT_EQ(status_of(RawClient(server_->port())
                          .send("POST /work HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
                          .read_all()),
            415);
}

TEST_F(FrontDeskTest, LimitsRequestsAtOnce) {
  start({.max_active_per_key = 1});
  RawClient holder(server_->port());
  holder.send("POST /hold HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return holding_ == 1; }));
  const std::string refused = ask("POST /work");
  EXPECT_EQ(status_of(refused), 429);
  EXPECT_NE(refused.find("retry-after: 1\r\n"), std::string::npos);
  EXPECT_EQ(status_of(ask("GET /open")), 200) << "health is no work";
  held_->send({});
  held_.reset();
  EXPECT_EQ(status_of(holder.read_answer()), 200);
  EXPECT_TRUE(eventually([&] { return status_of(ask("POST /work")) == 200; }));
}

TEST_F(FrontDeskTest, IsBusyWhenTooManyWait) {
  start({}, /*threads=*/1, /*waiting=*/0);
  const std::string answer = ask("POST /work");
  EXPECT_EQ(status_of(answer), 503);
  EXPECT_NE(answer.find("retry-after: 1\r\n"), std::string::npos);
}

// Each of them may become a hundred megabytes.
TEST_F(FrontDeskTest, AnswersOthersWhileItReadsAFewLongBodies) {
  start({}, /*threads=*/1);
  const std::string body((1 << 20) + 1, ' ');
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send(
        "POST /long HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Connection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  EXPECT_TRUE(eventually([&] { return reading_ == 2; }, 30));
  EXPECT_EQ(status_of(ask("POST /work")), 200);
  may_end_ = true;
  for (const auto& client : clients) EXPECT_TRUE(client->read_all(30).ends_with("long"));
  EXPECT_EQ(most_reading_, 2);
}

// Threads that took the places of others stay, but not the right to run.
TEST(WorkerPoolTest, RunsNoMoreJobsThanItHasThreads) {
  WorkerPool pool(1, 100);
  std::atomic<int> done = 0, running = 0, most = 0;
  const auto job = [&] {
    most = std::max(most.load(), ++running);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --running;
    ++done;
  };
  pool.add([&] {
    const WorkerPool::Substitute substitute;
    EXPECT_TRUE(eventually([&] { return done == 2; }, 30));
    ++done;
  });
  for (int i = 0; i < 2; ++i) pool.add(job);
  EXPECT_TRUE(eventually([&] { return done == 3; }, 30));
  for (int i = 0; i < 6; ++i) pool.add(job);
  EXPECT_TRUE(eventually([&] { return done == 9; }, 30));
  EXPECT_EQ(most, 1);
}

// It is no error of the server that nobody waited for the answer.
TEST_F(FrontDeskTest, LogsClientsThatWent) {
  start();
  RawClient client(server_->port());
  client.send("POST /hold HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return holding_ == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return held_->is_gone(); }, 30));
  held_.reset();
  const auto record = nlohmann::json::parse(log_lines(), nullptr, false);
  EXPECT_EQ(record.value("status", 0), 499) << record;
  EXPECT_EQ(record.value("gone", false), true) << record;
}

TEST_F(FrontDeskTest, DrainsButTellsItsHealth) {
  start();
  desk_->drain();
  EXPECT_EQ(status_of(ask("POST /work")), 503);
  EXPECT_EQ(status_of(ask("GET /open")), 200);
}

TEST_F(FrontDeskTest, LogsRequestsWithoutWhatTheySay) {
  start({.keys = {{"alice", "sk-alice-1"}}});
  RawClient client(server_->port());
  client.send(
      "POST /work?secret=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "X-Request-Id: mine\r\nAuthorization: Bearer sk-alice-1\r\nContent-Length: 12\r\n\r\n"
      "{\"secret\":1}");
  EXPECT_EQ(status_of(client.read_answer()), 200);
  ask("GET /models/x");
  ask("GE");
  client.close();
  const std::string lines = log_lines();
  EXPECT_EQ(lines.find("secret"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("sk-alice"), std::string::npos) << lines;
  // An answer is logged when nobody holds its reply, perhaps after its client has sent the next.
  std::istringstream stream(lines);
  std::map<int, nlohmann::json> records;  // by status; 0: an event
  for (std::string line; std::getline(stream, line);) {
    const auto parsed = nlohmann::json::parse(line);
    EXPECT_TRUE(records.emplace(parsed.value("status", 0), parsed).second) << lines;
  }
  ASSERT_EQ(records.size(), 3u) << lines;
  const nlohmann::json& record = records[200];
  EXPECT_EQ(record["id"], "mine");
  EXPECT_EQ(record["key"], "alice");
  EXPECT_EQ(record["address"], "127.0.0.1");
  EXPECT_EQ(record["method"], "POST");
  EXPECT_EQ(record["path"], "/work");
  EXPECT_EQ(record["status"], 200);
  EXPECT_EQ(record["bytes_in"], 12);
  EXPECT_EQ(record["bytes_out"], 6);
  EXPECT_GE(record["ms"], 0);
  EXPECT_TRUE(records.contains(401)) << lines;
  EXPECT_EQ(records[0]["event"], "bad_request");
}

}  // namespace
}  // namespace tensora::serve
