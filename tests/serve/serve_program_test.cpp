// `tensora serve` as a service of systemd and with LoRA adapters, and `tensora bench serve`.
#ifdef TENSORA_CLI

#include "serve_program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../real_data.h"
#include "tensora/base/check.h"
#include "tensora/io/safetensors.h"
#include "tensora/ops.h"

namespace tensora::serve {
namespace {

using namespace testing;
using tensora::testing::Program;
using tensora::testing::read_text;
using tensora::testing::real_data;
using tensora::testing::TemporaryFolder;
using tensora::testing::write_text;

const std::string kUnit = TENSORA_TESTS "/../tools/tensora.service";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The value of a setting of the unit.
std::string setting_of(const std::string& unit, const std::string& name) {
  const size_t at = unit.find("\n" + name + "=");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 2;
  return unit.substr(begin, unit.find('\n', begin) - begin);
}

TEST(ServeUnit, StartsAServerThatStopsWithinItsTime) {
  const std::string model = real_data("stories260K.gguf");
  if (model.empty()) GTEST_SKIP() << "stories260K.gguf is not there";
  const TemporaryFolder folder;
  const std::string unit = read_text(kUnit), keys = folder.path("keys");
  write_text(keys, "alice:sk-alice-1\n");
  std::string command = setting_of(unit, "ExecStart");
  command = replaced(command, "${TENSORA_MODEL}", model);
  command = replaced(command, "${CREDENTIALS_DIRECTORY}/keys", keys);
  std::istringstream text(command);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  ASSERT_GT(words.size(), 2u);
  EXPECT_TRUE(words[0].ends_with("/tensora"));
  words.erase(words.begin());
  const auto drain = std::find(words.begin(), words.end(), "--drain-timeout");
  ASSERT_NE(drain, words.end());
  EXPECT_LT(std::stoi(drain[1]), std::stoi(setting_of(unit, "TimeoutStopSec")))
      << "systemd would kill a server that drains";
  words.insert(words.end(), {"--port", "0"});
  const Program program(folder, words);
  const int port = port_of(program);
  ASSERT_GT(port, 0) << program.error();
  const auto models = [&](const std::string& headers) {
    return status_of(
        RawClient(port)
            .send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
                  "\r\n")
            .read_all());
  };
  EXPECT_EQ(models(""), 401);
  EXPECT_EQ(models("Authorization: Bearer sk-alice-1\r\n"), 200);
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 0) << program.error();
}

TEST(ServeUnit, IsWhatSystemdUnderstands) {
  if (std::system("systemd-analyze --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "systemd-analyze is not there";
  const TemporaryFolder folder;
  const std::string path = folder.path("tensora-test.service"), out = folder.path("said");
  const auto verify = [&](const std::string& unit) {
    write_text(path, unit);
    std::system(concat("systemd-analyze verify '", path, "' >'", out, "' 2>&1").c_str());
    std::istringstream lines(read_text(out));
    std::string about_it;  // other units of this machine may be wrong
    for (std::string line; std::getline(lines, line);)
      if (line.find("tensora-test") != std::string::npos) about_it += line + "\n";
    return about_it;
  };
  const std::string unit = replaced(read_text(kUnit), "/usr/local/bin/tensora", TENSORA_CLI);
  EXPECT_EQ(verify(unit), "");
  EXPECT_NE(verify(replaced(unit, "DynamicUser=yes", "DynamicUser=perhaps")), "")
      << "it finds nothing";
}

// A PEFT folder whose adapter adds `strength` times random numbers to two of the model's matrices.
void write_adapter(const std::string& folder, double strength) {
  std::filesystem::create_directories(folder);
  write_text(folder + "/adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 2})");
  Generator generator(7);
  const GeneratorScope scope(generator);
  StateDict state;
  for (const char* layer : {"0", "3"}) {
    const std::string name = concat("base_model.model.model.layers.", layer, ".self_attn.o_proj");
    state.insert(name + ".lora_A.weight", randn({2, 64}));
    state.insert(name + ".lora_B.weight", randn({64, 2}) * strength);
  }
  io::save_safetensors(state, folder + "/adapter_model.safetensors");
}

TEST(ServeCommand, ServesAdaptersAsModels) {
  const std::string model = real_data("stories260K.gguf");
  if (model.empty()) GTEST_SKIP() << "stories260K.gguf is not there";
  const TemporaryFolder folder;
  const std::string strong = folder.path("strong"), none = folder.path("none");
  write_adapter(strong, 1);
  write_adapter(none, 0);
  const Program run(folder, {"run", model, "--lora", strong, "-p", "Once upon a", "-n", "24",
                             "--temperature", "0", "--quiet"});
  ASSERT_EQ(run.wait(), 0) << run.error();
  const std::string expected = run.out();
  const Program program(folder, {"serve", model, "--port", "0", "--no-log", "--lora",
                                 "strong=" + strong, "--lora", "none=" + none});
  const int port = port_of(program);
  ASSERT_GT(port, 0) << program.error();
  const auto send = [&](RawClient& client, const std::string& name) {
    const std::string body = concat(R"({"model":")", name,
                                    R"(","prompt":"Once upon a","max_tokens":24,"temperature":0})");
    client.send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  const auto text = [](RawClient& client) {
    const std::string answer = client.read_all();
    const auto json =
        nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
    EXPECT_EQ(status_of(answer), 200) << answer;
    return json.is_object() ? json["choices"][0].value("text", "") : answer;
  };
  // Together in a batch.
  RawClient a(port), b(port), c(port), d(port);
  send(a, "stories260K");
  send(b, "strong");
  send(c, "none");
  send(d, "strong");
  const std::string plain = text(a);
  EXPECT_EQ(text(b), expected);
  EXPECT_EQ(text(c), plain);
  EXPECT_EQ(text(d), expected);
  EXPECT_NE(plain, expected);
  const std::string one =
      RawClient(port)
          .send("GET /v1/models/strong HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
          .read_all();
  EXPECT_NE(one.find(R"("parent":"stories260K")"), std::string::npos) << one;
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 0) << program.error();
}

class BenchServe : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string model = real_data("stories260K.gguf");
    if (model.empty()) GTEST_SKIP() << "stories260K.gguf is not there";
    server_.emplace(server_folder_,
                    std::vector<std::string>{"serve", model, "--port", "0", "--no-log"});
    const int port = port_of(*server_);
    ASSERT_GT(port, 0) << server_->error();
    url_ = "http://127.0.0.1:" + std::to_string(port);
  }
  void TearDown() override {
    if (!server_) return;
    server_->send(SIGTERM);
    EXPECT_EQ(server_->wait(), 0) << server_->error();
  }
  // The exit code.
  int bench(std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "serve", url_, "-p", "8", "-g", "8"});
    const Program program(folder_, words);
    const int code = program.wait();
    out_ = program.out();
    error_ = program.error();
    return code;
  }
  nlohmann::json records() const { return nlohmann::json::parse(out_, nullptr, false); }

  TemporaryFolder server_folder_, folder_;
  std::optional<Program> server_;
  std::string url_, out_, error_;
};

TEST_F(BenchServe, OpensRequestsByTheClock) {
  ASSERT_EQ(bench({"--request-rate", "100", "-n", "30", "--seed", "3", "--json"}), 0) << error_;
  const nlohmann::json open = records().at(0);
  EXPECT_EQ(open["completed"], 30);
  EXPECT_EQ(open["failed"], 0);
  EXPECT_EQ(open["total_output_tokens"], 240);
  EXPECT_GT(open["duration"], 0.1) << "30 requests at 100 per second";
  EXPECT_TRUE(open["max_concurrency"].is_null());
  ASSERT_EQ(bench({"--ramp-up-strategy", "linear", "--ramp-up-start-rps", "20", "--ramp-up-end-rps",
                   "400", "-n", "40", "--endpoint", "chat", "--json"}),
            0)
      << error_;
  const nlohmann::json ramp = records().at(0);
  EXPECT_EQ(ramp["completed"], 40);
  EXPECT_EQ(ramp["ramp_up_end_rps"], 400);
  EXPECT_GT(ramp["duration"], 0.1) << "40 requests at 400 per second";
}

TEST_F(BenchServe, ComparesDrawsAndNamesMistakes) {
  const std::string before = folder_.path("before.json"), plot = folder_.path("plot.svg");
  ASSERT_EQ(bench({"--ladder", "1,4", "-n", "12", "--json", "--out", before, "--svg", plot}), 0)
      << error_;
  EXPECT_NE(read_text(plot).find("</svg>"), std::string::npos);
  const auto with_speed = [&](double value) {
    nlohmann::json old = nlohmann::json::parse(read_text(before));
    EXPECT_EQ(old.size(), 2u);
    for (auto& record : old)
      for (auto& speed : record["samples_ts"]) speed = value;
    const std::string path = folder_.path("other.json");
    write_text(path, old.dump());
    return path;
  };
  EXPECT_EQ(bench({"--ladder", "1,4", "-n", "12", "--compare", with_speed(1e-6)}), 0) << error_;
  EXPECT_NE(out_.find(" faster, 0 slower"), std::string::npos) << out_;
  EXPECT_EQ(bench({"--ladder", "1,4", "-n", "12", "--compare", with_speed(1e12)}), 1);
  EXPECT_NE(out_.find("verdict: 0 faster, 2 slower"), std::string::npos) << out_;
  EXPECT_NE(error_.find("slower"), std::string::npos) << error_;
  for (const auto& [words, named] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--request-rate", "0"}, "--request-rate"},
           {{"--request-rate", "nan"}, "--request-rate"},
           {{"--goodput", "ttft:100x"}, "--goodput"},
           {{"--goodput", "itl:5"}, "--goodput"},
           {{"--ladder", "0"}, "--ladder"},
           {{"--vanish", "0.7", "--slow", "0.7"}, "--vanish"}}) {
    EXPECT_EQ(bench(words), 2);
    EXPECT_NE(error_.find(named), std::string::npos) << error_;
  }
}

}  // namespace
}  // namespace tensora::serve

#endif
