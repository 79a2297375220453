#include "tensora/serve/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "../real_data.h"
#include "certificate.h"
#include "raw_client.h"
#include "tensora/base/check.h"
#include "tensora/serve/own_thread.h"
#include "toy_service.h"
#ifdef TENSORA_CLI
#include "serve_program.h"
#endif

namespace tensora::serve {
namespace {

using namespace testing;

class ServerTest : public ::testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    backend_ = std::make_shared<ToyBackend>();
    ServiceOptions service;
    service.models = {{.name = "toy", .load = [this] { return backend_; }}};
    service_ = make_service(std::move(service));
    options.log = "";
    server_ = std::make_unique<Server>(options, *service_);
    service_->model("toy");
  }
  void TearDown() override { server_.reset(); }
  RawClient client() { return RawClient(server_->port()); }
  std::string ask(const std::string& method_and_path, const std::string& headers = "") {
    return client()
        .send(method_and_path +
              " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              "Connection: close\r\n" +
              headers + "\r\n")
        .read_all();
  }
  static std::string chat(int tokens, bool streams) {
    const std::string body = Json({{"messages", {{{"role", "user"}, {"content", "abc"}}}},
                                   {"max_tokens", tokens},
                                   {"ignore_eos", true},
                                   {"stream", streams}})
                                 .dump();
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
           "Content-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  std::shared_ptr<ToyBackend> backend_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Server> server_;
};

// Names that stand for the rest of a path are filled in.
std::string path_of(const Route& route) {
  const size_t brace = route.path.find('{');
  return brace == std::string::npos ? route.path : route.path.substr(0, brace) + "x";
}

TEST_F(ServerTest, AsksForAKeyOnEveryRoute) {
  start({.gate = {.keys = {{"alice", "sk-alice-1"}}}});
  ASSERT_GE(server_->router().routes().size(), 6);
  for (const Route& route : server_->router().routes()) {
    const int status = status_of(ask(route.method + " " + path_of(route)));
    if (route.is_public)
      EXPECT_EQ(status, 200) << route.path;
    else
      EXPECT_EQ(status, 401) << route.path;
  }
  for (const char* path : {"/health", "/ready", "/"})
    EXPECT_EQ(status_of(ask(std::string("GET ") + path)), 200) << path;
}

TEST_F(ServerTest, OnlyHealthAndThePageArePublic) {
  start();
  for (const Route& route : server_->router().routes())
    if (route.is_public) {
      EXPECT_TRUE(route.path == "/" || route.path == "/health" || route.path == "/v1/health" ||
                  route.path == "/ready")
          << route.path;
      EXPECT_EQ(route.method, "GET");
    }
}

TEST_F(ServerTest, IsNotOpenByAccident) {
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1"}) {
    try {
      start({.http = {.host = host}});
      ADD_FAILURE() << host;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("--api-keys"), std::string::npos);
    }
  }
  EXPECT_NO_THROW(start({.http = {.host = "0.0.0.0"}, .allows_open = true}));
  EXPECT_NO_THROW(start({.http = {.host = "0.0.0.0"}, .gate = {.keys = {{"a", "12345678"}}}}));
}

// Requests for a model that takes minutes to load must not hold up those for another one.
TEST_F(ServerTest, OtherModelsAnswerWhileOneIsLoaded) {
  backend_ = std::make_shared<ToyBackend>();
  std::atomic<bool> may_load = false;
  ServiceOptions service;
  service.models = {{.name = "toy", .load = [this] { return backend_; }},
                    {.name = "slow", .load = [&may_load] {
                       while (!may_load) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       return std::make_shared<ToyBackend>();
                     }}};
  service_ = make_service(std::move(service));
  ServerOptions options{.workers = 2, .log = ""};
  server_ = std::make_unique<Server>(options, *service_);
  service_->model("toy");
  const auto request = [](const std::string& model) {
    const std::string body =
        Json({{"model", model}, {"prompt", "abc"}, {"max_tokens", 3}, {"ignore_eos", true}}).dump();
    return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
           "Content-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  std::vector<RawClient> waiting;
  for (int i = 0; i < 6; ++i) {
    waiting.push_back(client());
    waiting.back().send(request("slow"));
  }
  auto other = client();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(status_of(other.send(request("toy")).read_answer()), 200);
  EXPECT_EQ(status_of(other.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").read_answer()),
            200);
  may_load = true;
  for (RawClient& one : waiting) EXPECT_EQ(status_of(one.read_answer()), 200);
}

// A proxy must pass on the lines of Ollama's dialect one by one, too.
TEST_F(ServerTest, StreamsLines) {
  start();
  const std::string body =
      Json({{"model", "toy"}, {"prompt", "abc"}, {"options", {{"num_predict", 3}}}}).dump();
  const std::string head = client()
                               .send(
                                   "POST /api/generate HTTP/1.1\r\nHost: localhost\r\n"
                                   "Content-Type: application/json\r\nContent-Length: " +
                                   std::to_string(body.size()) + "\r\n\r\n" + body)
                               .read_until("\r\n\r\n");
  EXPECT_NE(head.find("content-type: application/x-ndjson\r\n"), std::string::npos) << head;
  EXPECT_NE(head.find("x-accel-buffering: no\r\n"), std::string::npos) << head;
}

TEST_F(ServerTest, StreamsAnswers) {
  start();
  auto connection = client();
  connection.send(chat(5, /*streams=*/true));
  const std::string head = connection.read_until("\r\n\r\n");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_NE(head.find("content-type: text/event-stream"), std::string::npos);
  for (const std::string header : {"x-accel-buffering: no\r\n", "cache-control: no-cache\r\n"}) {
    EXPECT_NE(head.find(header), std::string::npos) << head;
    EXPECT_EQ(head.find(header), head.rfind(header)) << head;
  }
  EXPECT_NE(connection.read_until("0\r\n\r\n").find("data: [DONE]"), std::string::npos);
  connection.send(chat(5, /*streams=*/false));
  EXPECT_EQ(status_of(connection.read_answer()), 200);
}

TEST_F(ServerTest, FinishesAnswersWhenItDrains) {
  start();
  backend_->model->delay = std::chrono::milliseconds(2);
  auto running = client();
  running.send(chat(60, /*streams=*/true));
  running.read_until("data: ");
  auto idle = client();
  idle.send("GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(status_of(idle.read_answer()), 200);
  auto late = client();
  late.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  late.read_answer();
  server_->drain();
  idle.send("GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(status_of(idle.read_all()), 503);
  late.send(chat(5, false));
  EXPECT_EQ(status_of(late.read_all()), 503);
  EXPECT_TRUE(server_->wait_until_idle(10));
  EXPECT_NE(running.read_all().find("data: [DONE]"), std::string::npos);
}

TEST_F(ServerTest, EndsAnswersThatTakeTooLong) {
  start();
  backend_->model->delay = std::chrono::milliseconds(5);
  auto running = client();
  running.send(chat(250, /*streams=*/true));
  running.read_until("data: ");
  server_->drain();
  EXPECT_FALSE(server_->wait_until_idle(0.03));
  server_->end_answers();
  EXPECT_TRUE(server_->wait_until_idle(5));
  const std::string rest = running.read_all();
  EXPECT_NE(rest.find("shutting down"), std::string::npos) << rest;
  EXPECT_TRUE(rest.ends_with("0\r\n\r\n")) << "the stream ends in order";
}

TEST_F(ServerTest, CancelsAnswersOfClientsThatVanish) {
  start();
  backend_->model->delay = std::chrono::milliseconds(2);
  {
    auto gone = client();
    gone.send(chat(200, /*streams=*/true));
    gone.read_until("data: ");
    auto waits = client();
    waits.send(chat(200, /*streams=*/false));
    EXPECT_TRUE(eventually([&] { return service_->load().answers == 2; }));
  }
  EXPECT_TRUE(eventually([&] { return service_->load().answers == 0; }, 1));
}

// The slice that the scheduler gives a thread, in nanoseconds.
uint64_t slice_of(pid_t thread) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice, deadline, period;
  } found{};
  return syscall(SYS_sched_getattr, thread, &found, static_cast<unsigned>(sizeof(found)), 0u) == 0
             ? found.slice
             : 0;
}

// The server's threads that answer have shorter slices than those that compute, and so run first.
TEST_F(ServerTest, AnswersWhileAllCoresAreBusy) {
  start();
  bool is_known = false;
  std::thread([&] {
    take_short_slices();
    is_known = slice_of(0) == 100'000;
  }).join();
  if (!is_known) GTEST_SKIP() << "the system does not know slices of threads: Linux before 6.12";
  std::map<std::string, std::set<uint64_t>> slices;
  eventually([&] {  // threads name themselves
    slices.clear();
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(task.path() / "comm");
      std::string name;
      std::getline(file, name);
      slices[name].insert(slice_of(std::stoi(task.path().filename())));
    }
    return slices.contains("serve-io") && slices.contains("serve-delivery") &&
           slices.contains("engine");
  });
  EXPECT_EQ(slices["serve-io"], std::set<uint64_t>{100'000});
  EXPECT_EQ(slices["serve-delivery"], std::set<uint64_t>{100'000});
  ASSERT_EQ(slices["engine"].size(), 1u);
  EXPECT_GT(*slices["engine"].begin(), 500'000u);
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  char bytes[4096];
  for (size_t count = 0; (count = fread(bytes, 1, sizeof(bytes), pipe)) > 0;)
    out.append(bytes, count);
  pclose(pipe);
  return out;
}

// A handshake that does not go on is a head that does not come.
TEST_F(ServerTest, ClosesSlowHandshakes) {
  const Certificate certificate;
  if (certificate.file.empty()) GTEST_SKIP() << "needs the program openssl";
  start({.http = {.header_seconds = 0.1,
                  .tls_certificate = certificate.file,
                  .tls_key = certificate.key}});
  auto silent = client();
  auto half = client();
  half.send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));  // of a ClientHello
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_EQ(half.read_all(), "");
  EXPECT_EQ(status_of(ask("GET /health")), 0) << "plain HTTP";
}

TEST_F(ServerTest, SpeaksTls) {
  const Certificate certificate;
  if (certificate.file.empty() || output_of("curl --version 2>/dev/null").empty())
    GTEST_SKIP() << "needs the programs openssl and curl";
  start({.http = {.tls_certificate = certificate.file, .tls_key = certificate.key}});
  const std::string url = "https://localhost:" + std::to_string(server_->port());
  EXPECT_EQ(server_->url(), "https://127.0.0.1:" + std::to_string(server_->port()));
  const std::string curl = "curl -s --noproxy '*' --max-time 10 --cacert " + certificate.file + " ";
  EXPECT_EQ(output_of(curl + url + "/health"), R"({"status":"ok"})");
  EXPECT_EQ(output_of(curl + "--tls-max 1.1 " + url + "/health"), "") << "older than TLS 1.2";
  const std::string page = output_of(curl + url + "/");
  EXPECT_GT(page.size(), 20000);
  const std::string stream =
      output_of(curl +
                "-H 'Content-Type: application/json' -d '{\"messages\":[{\"role\":\"user\","
                "\"content\":\"abc\"}],\"max_tokens\":20,\"stream\":true}' " +
                url + "/v1/chat/completions");
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n")) << stream;
  EXPECT_TRUE(client().send("GET / HTTP/1.1\r\n\r\n").read_all().find("HTTP/1.1 200") ==
              std::string::npos)
      << "plain HTTP on the port of TLS";
}

#ifdef TENSORA_CLI

using tensora::testing::Program;
using tensora::testing::TemporaryFolder;

TEST(ServeCommand, ServesUntilASignal) {
  const std::string model = tensora::testing::real_data("stories260K.gguf");
  if (model.empty()) GTEST_SKIP() << "stories260K.gguf is not there";
  const TemporaryFolder folder;
  const Program program(folder, {"serve", model, "--port", "0", "--alias", "gpt=stories260K"});
  const int port = port_of(program);
  ASSERT_GT(port, 0) << program.error();
  const std::string body = R"({"model":"gpt","prompt":"Once upon","max_tokens":8,"temperature":0})";
  const std::string answer =
      RawClient(port)
          .send(
              "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
              "Content-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body)
          .read_all();
  EXPECT_EQ(status_of(answer), 200) << answer;
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 0) << program.error();
  EXPECT_NE(program.error().find(R"("path":"/v1/completions","status":200)"), std::string::npos)
      << program.error();
}

TEST(ServeCommand, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto run = [&](std::vector<std::string> words, int code) {
    words.insert(words.begin(), "serve");
    const Program program(folder, words);
    EXPECT_EQ(program.wait(), code) << program.error();
    return program.error();
  };
  EXPECT_NE(run({}, 2).find("expected a MODEL"), std::string::npos);
  EXPECT_NE(run({"a.gguf", "--alias", "b"}, 2).find("NAME="), std::string::npos);
  EXPECT_NE(run({"a.gguf", "--alias", "b=c"}, 2).find("there is no model 'c'"), std::string::npos);
  EXPECT_NE(run({"a.gguf", "x/a.gguf"}, 2).find("two models"), std::string::npos);
  EXPECT_NE(run({"a.gguf", "--host", "0.0.0.0", "--port", "0"}, 1).find("--allow-open"),
            std::string::npos);
  EXPECT_NE(run({"no-such-file.gguf", "--port", "0"}, 1).find("no-such-file"), std::string::npos);
  EXPECT_NE(run({"a.gguf", "--port", "0", "--api-keys", "/no/keys"}, 1).find("/no/keys"),
            std::string::npos);
}

TEST(ServeCommand, ServesRandomWeights) {
  const TemporaryFolder folder;
  const Program program(folder, {"serve", "--synthetic", "stories15m", "--type", "float32",
                                 "--port", "0", "--no-log", "--context", "64"});
  const int port = port_of(program);
  EXPECT_GT(port, 0) << program.error();
  const std::string body =
      R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":4,"temperature":0})";
  const std::string answer =
      port == 0 ? ""
                : RawClient(port)
                      .send(
                          "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          "Connection: close\r\nContent-Type: application/json\r\n"
                          "Content-Length: " +
                          std::to_string(body.size()) + "\r\n\r\n" + body)
                      .read_all(20);
  EXPECT_EQ(status_of(answer), 200) << answer;
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 0) << program.error();
  EXPECT_EQ(program.error().find("\"path\""), std::string::npos) << "--no-log";
}

#endif

}  // namespace
}  // namespace tensora::serve
