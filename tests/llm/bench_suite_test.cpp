// tensora frameworks, and tensora bench with several of them: frameworks that misbehave in every
// function, comparisons, baselines, interrupts. No process may be left behind.
#ifdef TENSORA_CLI
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "../helpers.h"
#include "../program.h"
#include "../real_data.h"
#include "../setting.h"
#include "tensora/base/utf8.h"

namespace tensora::llm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::contains;
using testing::Program;
using testing::read_text;
using testing::Setting;
using testing::TemporaryFolder;
using testing::write_text;
using Words = std::vector<std::string>;

class Frameworks : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = testing::real_data("stories260K.gguf");
    if (model_.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
    setenv("TENSORA_TEST_MARK", mark().c_str(), 1);
    fs::create_directory(temporary());
    temporary_.emplace("TMPDIR", temporary());
  }
  void TearDown() override {
    EXPECT_EQ(processes_left(), 0);
    EXPECT_TRUE(model_.empty() || fs::is_empty(temporary())) << "a temporary file was left";
  }

  // Where programs make their temporary files.
  std::string temporary() const { return folder_.path("temporary"); }

  std::string mark() const { return folder_.path(""); }
  // Processes that this test has started, and those that they have.
  int processes_left() const {
    int count = 0;
    for (int tries = 0; tries < 50; ++tries) {
      count = 0;
      std::error_code gone;
      for (const auto& entry : fs::directory_iterator("/proc", gone)) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != name.npos || std::stol(name) == getpid())
          continue;
        count +=
            contains(read_text((entry.path() / "environ").string()), "TENSORA_TEST_MARK=" + mark());
      }
      if (count == 0) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return count;
  }

  Words bench(Words more, const char* timeout = "60") const {
    Words words = {"bench", model_, "-p",        "8",     "-n", "4", "--no-bandwidth",
                   "-o",    "json", "--timeout", timeout, "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  json measured(const Words& words, int code = 0) const {
    const Program program(folder_, words);
    EXPECT_EQ(program.wait(), code) << program.error();
    return json::parse(program.out());
  }

  TemporaryFolder folder_;
  std::string model_;
  std::optional<Setting> temporary_;
};

TEST_F(Frameworks, AreListedWithTheirReasons) {
  write_text(folder_.path("libtensora_framework_broken.so"), "no library");
  const Setting path("TENSORA_FRAMEWORK_PATH", folder_.path("."));
  const json all = measured({"frameworks", "--json"});
  const auto find = [&](const std::string& name) {
    for (const json& one : all)
      if (one.at("name") == name) return one;
    return json();
  };
  EXPECT_TRUE(find("native").at("usable").get<bool>());
  EXPECT_FALSE(find("native").at("version").get<std::string>().empty());
  EXPECT_TRUE(find("plain").at("usable").get<bool>());
  EXPECT_TRUE(contains(find("plain").at("library").get<std::string>(), "libtensora_framework_"));
  EXPECT_EQ(find("unruly").at("version"), "13");
  EXPECT_TRUE(contains(find("stale").at("reason").get<std::string>(), "was built for version -1"));
  EXPECT_TRUE(contains(find("broken").at("reason").get<std::string>(), "cannot be opened"));
  const Program table(folder_, {"frameworks", "plain", "stale"});
  EXPECT_EQ(table.wait(), 1);
  EXPECT_TRUE(contains(table.out(), "library, or why not")) << table.out();
  EXPECT_TRUE(contains(table.out(), "was built for version -1")) << table.out();
  EXPECT_EQ(Program(folder_, {"frameworks", "plain", "native", "--device", "cpu"}).wait(), 0);
}

TEST_F(Frameworks, AreNeverTakenFromTheWorkingDirectory) {
  const std::string library = fs::canonical(fs::path(TENSORA_CLI).parent_path() / "../lib/" /
                                            "libtensora_framework_plain.so");
  fs::copy(library, folder_.path("libtensora_framework_evil.so"));
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path("."));
  const Program program(folder_, {"run", model_, "--framework", "evil", "-n", "2"});
  const int code = program.wait();
  fs::current_path(before);
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(contains(program.error(), "there is no framework 'evil'")) << program.error();
}

// Whatever a framework does before it is chosen, the next one answers.
TEST_F(Frameworks, TheNextOneIsTakenWhereOneMisbehaves) {
  // Sanitizers are slow; only what hangs is not waited for.
  const auto run = [&](Words more, const char* seconds = "60") {
    const Words words = {
        "run",  model_, "-p", "Tim", "-n", "8", "--temp", "0", "-t", "1", "--framework-timeout",
        seconds};
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const Program alone(folder_, run({}));
  ASSERT_EQ(alone.wait(), 0);
  const std::string story = alone.out();
  const std::pair<const char*, const char*> plans[] = {
      {"open:throw", "ended by signal"},
      {"open:crash", "ended by signal"},
      {"open:hang", "within 3 s"},
      {"abi:exit", "exit code 3"},
      {"add:throw", "does not feel like it"},
      {"add:throw_number", "no std::exception"},
      {"make:throw", "does not feel like it"},
      {"make:memory", "memory"},
      {"make:crash", "ended by signal"},
      {"load_model:throw", "does not feel like it"},
      {"load_model:hang", "within 3 s"},
      {"load_model:memory", "memory"},
      {"submit:throw_number", "no std::ex"},
      {"submit:crash", "ended by signal"},
      {"load_tokenizer:throw", "feel like"},
      {"load_tokenizer:hang", "within 3 s"},
      {"load_tokenizer:memory", "memory"},
      {"submit:memory", "memory"},
      {"submit:hang", "within 3 s"},
  };
  for (const auto& [plan, reason] : plans) {
    const Setting unruly("UNRULY", plan);
    const bool hangs = contains(plan, "hang");
    const Program program(folder_, run({"--framework", "unruly,native"}, hangs ? "3" : "60"));
    EXPECT_EQ(program.wait(), 0) << plan << program.error();
    EXPECT_EQ(program.out(), story) << plan;
    EXPECT_TRUE(contains(program.error(), reason)) << plan << ": " << program.error();
    EXPECT_TRUE(contains(program.error(), "native-cpu is used")) << plan << program.error();
  }
  {
    // Passes its self-test and hangs afterwards: too late for another framework.
    const Setting hangs("UNRULY", "load_own_tokenizer:hang");
    const Program program(folder_, run({"--framework", "unruly,native"}, "3"));
    EXPECT_EQ(program.wait(), 1) << program.error();
    EXPECT_TRUE(contains(program.error(), "not returned from load_tokenizer within 3 s"))
        << program.error();
  }
  const Setting unruly("UNRULY", "make:throw");
  const Program required(folder_, run({"--framework", "unruly,native", "--require"}));
  EXPECT_EQ(required.wait(), 1);
  EXPECT_TRUE(contains(required.error(), "does not feel like it")) << required.error();
  // What a library prints is not taken for the result of its test.
  const Setting talks("UNRULY", "open:print");
  const Program talking(folder_, run({"--framework", "unruly", "-q"}));
  EXPECT_EQ(talking.wait(), 0) << talking.error();
}

TEST_F(Frameworks, AutoTakesTheFirstThatWorks) {
  const Program program(folder_, {"run", model_, "-n", "2", "--framework", "auto", "-v"});
  EXPECT_EQ(program.wait(), 0) << program.error();
  EXPECT_TRUE(contains(program.error(), " on native-")) << program.error();
  const Program level(folder_, {"run", model_, "-n", "2", "--level", "warp"});
  EXPECT_EQ(level.wait(), 1);
  EXPECT_TRUE(contains(level.error(), "optimization level")) << level.error();
  const Program option(folder_, {"run", model_, "-n", "2", "--framework-option", "speed=9"});
  EXPECT_EQ(option.wait(), 1);
  EXPECT_TRUE(contains(option.error(), "no setting 'speed'")) << option.error();
}

TEST_F(Frameworks, AreComparedInTurns) {
  const std::string page = folder_.path("report.html");
  const json suite =
      measured(bench({"--framework", "native,plain", "-s", "1,2", "-d", "0,16", "--html", page}));
  EXPECT_EQ(suite.at("format"), "tensora-suite-1");
  EXPECT_TRUE(contains(suite.at("command").get<std::string>(), "tensora bench "));
  for (const char* name : {"cpu", "tensora", "compiler", "states"})
    EXPECT_TRUE(suite.at("machine").contains(name)) << name;
  const json& comparison = suite.at("comparisons").at(0);
  EXPECT_EQ(comparison.at("reference"), "native");
  const json& plain = comparison.at("frameworks").at(1);
  EXPECT_TRUE(plain.at("equivalence").at("passed").get<bool>());
  EXPECT_LT(plain.at("equivalence").at("kl_divergence").get<double>(), 1e-3);
  EXPECT_EQ(plain.at("equivalence").at("first_differing_token"), -1);
  EXPECT_GT(plain.at("cold_start").at("total").get<double>(), 0);
  ASSERT_EQ(comparison.at("tests").size(), 8u);
  for (const json& test : comparison.at("tests")) {
    ASSERT_EQ(test.at("results").size(), 2u);
    for (const json& one : test.at("results")) {
      EXPECT_EQ(one.at("samples_ts").size(), 5u);
      EXPECT_LE(one.at("low_ts"), one.at("median_ts"));
      EXPECT_GE(one.at("high_ts"), one.at("median_ts"));
      EXPECT_GT(one.at("memory").at("weights_gb").get<double>(), 0);
      EXPECT_GT(one.at("memory").at("kv_cache_gb").get<double>(), 0);
      EXPECT_GT(one.at("processor_ms_per_token").get<double>(), 0);
      EXPECT_LE(one.at("processor_ratio_low"), one.at("processor_ratio"));
      EXPECT_GE(one.at("processor_ratio_high"), one.at("processor_ratio"));
      EXPECT_FALSE(one.contains("percent_of_peak"));  // of --no-bandwidth
      for (const char* name :
           {"framework", "model_size", "iterations", "total_time", "first_token_time",
            "avg_token_time", "min_token_time", "max_token_time", "avg_tokens_per_second",
            "peak_tokens_per_second", "peak_memory_gb", "model_memory_gb", "precision",
            "optimization_level", "jit_compilation_time", "model_loading_time",
            "kernel_cache_entries", "kernel_cache_mb", "kernel_cache_hit_rate"})
        EXPECT_TRUE(one.at("result").contains(name)) << name;
    }
    // Which one is faster depends on the machine's other work.
    const double ratio = test.at("results").at(1).at("ratio").get<double>();
    const std::string verdict = test.at("results").at(1).at("verdict");
    EXPECT_TRUE(verdict == (ratio > 1 ? "faster" : "slower") || verdict == "no difference")
        << verdict;
  }
  const std::string html = read_text(page);
  for (const char* part : {"<svg", "Throughput", "Time per step", "Memory at the peak",
                           "over sequences", "over context depth", "peak_tokens_per_second"})
    EXPECT_TRUE(contains(html, part)) << part;
  EXPECT_FALSE(contains(html, "http"));  // it needs nothing else
}

// The speed of the memory is measured on 128 MiB, which belong to none of them.
TEST_F(Frameworks, DoNotPayForTheBandwidthTest) {
  const json suite = measured({"bench", model_, "-p", "0", "-n", "4", "-r", "1", "-t", "1", "-o",
                               "json", "--framework", "native,plain"});
  const json& comparison = suite.at("comparisons").at(0);
  EXPECT_GT(comparison.at("peak_gb_per_second").get<double>(), 0);
  const json& one = comparison.at("tests").at(0).at("results").at(0);
  EXPECT_GT(one.at("percent_of_peak").get<double>(), 0);
  EXPECT_LT(one.at("memory").at("peak_gb").get<double>(), 0.1);
}

TEST_F(Frameworks, ThatFailMidwayAreReportedAndTheOthersMeasured) {
  const std::pair<const char*, const char*> plans[] = {
      {"load_model:throw:1", "load_model: unruly"},
      {"load_model:crash:1", "load_model: its process was ended by signal 11"},
      {"model_info:throw_number", "load_model: it threw something"},
      {"open_sequences:memory", "memory"},
      {"open_sequences:throw:1", "unruly: open_sequences"},
      {"open_sequences:exit:3", "exit code 3"},
      {"forward:hang:60", "it did not answer within 5 s and was stopped"},
      {"forward:throw:70", "forward: unruly"},
      {"forward:memory:65", "memory"},
      {"truncate:throw:2", "unruly: truncate"},
      {"synchronize:crash:4", "ended by signal 11"},
      {"memory_usage:throw", "memory_usage: unruly"},
      {"memory_usage:hang", "memory_usage: it did not answer within 5 s"},
      {"report:throw", "load_model: unruly: report"},
      {"report:memory:1", "memory"},
      {"cleanup:throw:3", "cleanup: its process was ended by signal 6"},
      {"cleanup:hang:3", "cleanup: it did not answer"},
      {"forward:wrong", "its output is not that of native"},
      {"forward:wrong:3", "its output is not that of native"},  // decode steps only
  };
  for (const auto& [plan, reason] : plans) {
    const Setting unruly("UNRULY", plan);
    const json suite =
        measured(bench({"--framework", "native,unruly"}, contains(plan, "hang") ? "5" : "60"), 1);
    const json& comparison = suite.at("comparisons").at(0);
    const json& failed = comparison.at("frameworks").at(1);
    EXPECT_EQ(failed.at("status"), "failed") << plan;
    EXPECT_TRUE(contains(failed.at("reason").get<std::string>(), reason))
        << plan << ": " << failed.at("reason");
    ASSERT_EQ(comparison.at("tests").size(), 2u) << plan;
    for (const json& test : comparison.at("tests"))
      EXPECT_EQ(test.at("results").at(0).at("framework"), "native") << plan;
  }
  const Setting unruly("UNRULY", "load_model:fork:1");  // a process of its own
  EXPECT_EQ(Program(folder_, bench({"--framework", "native,unruly"})).wait(), 0);
  EXPECT_EQ(processes_left(), 0);
  const Setting thrown("UNRULY", "make:throw");
  const Program required(folder_, bench({"--framework", "native,unruly", "--require"}));
  EXPECT_EQ(required.wait(), 1);
  EXPECT_TRUE(contains(required.error(), "does not feel like it")) << required.error();
  // Those that were not named may be missing.
  EXPECT_EQ(Program(folder_, bench({"--framework", "all"})).wait(), 0);
}

TEST_F(Frameworks, AreNotComparedUnfairly) {
  for (const char* what : {"level", "precision"}) {
    const Setting unruly("UNRULY", std::string("report:") + what);
    const Program refused(folder_, bench({"--framework", "native,unruly"}));
    EXPECT_EQ(refused.wait(), 1);
    EXPECT_TRUE(contains(refused.error(), concat("not fair: the ", what, " of unruly is")))
        << refused.error();
    const json suite = measured(bench({"--framework", "native,unruly", "--unfair"}));
    EXPECT_EQ(suite.at("comparisons").at(0).at("unfair").size(), 1u);
  }
  const Setting unruly("UNRULY", "forward:wrong");
  const json suite = measured(bench({"--framework", "native,unruly", "--unfair"}));
  EXPECT_TRUE(contains(suite.at("comparisons").at(0).at("unfair").at(0).get<std::string>(),
                       "its output is not that of native"));
}

TEST_F(Frameworks, LeaveNothingBehindWhenInterrupted) {
  const auto interrupt = [&](const char* frameworks, int milliseconds) {
    const Program program(folder_, bench({"--framework", frameworks, "-r", "1000"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    program.send(milliseconds == 500 ? SIGTERM : SIGINT);
    const int code = program.wait();
    EXPECT_TRUE(code == 130 || code == 143) << code << program.error();
    EXPECT_EQ(processes_left(), 0) << milliseconds;
  };
  for (const int milliseconds : {0, 30, 100, 250, 500, 900})
    interrupt("native,plain", milliseconds);
  // LibTorch, where it was built, has threads of its own and takes seconds to load.
  if (fs::exists(fs::path(TENSORA_CLI).parent_path() / "../lib/libtensora_framework_libtorch.so"))
    for (const int milliseconds : {300, 700, 1500, 2500})
      interrupt("libtorch,hybrid", milliseconds);
  // Nor when it cannot do anything about it.
  const Program program(folder_, bench({"--framework", "native,plain", "-r", "1000"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  program.send(SIGKILL);
  EXPECT_EQ(program.wait(), 137);
  EXPECT_EQ(processes_left(), 0);
  for (const auto& left : fs::directory_iterator(temporary())) fs::remove_all(left);
}

// A result with one test whose speeds are given.
std::string saved(const std::vector<double>& speeds) {
  const json one = {{"framework", "native"}, {"samples_ts", speeds}, {"median_ts", speeds[0]},
                    {"low_ts", speeds[0]},   {"high_ts", speeds[0]}, {"ratio", 1.},
                    {"verdict", "reference"}};
  return json{{"format", "tensora-suite-1"},
              {"comparisons",
               {{{"model", "toy"},
                 {"frameworks", {{{"name", "native"}, {"status", "measured"}}}},
                 {"tests",
                  {{{"test", "tg4"},
                    {"n_prompt", 0},
                    {"n_gen", 4},
                    {"n_depth", 0},
                    {"n_sequences", 1},
                    {"results", {one}}}}}}}}}
      .dump();
}

TEST_F(Frameworks, AreComparedWithABaseline) {
  const std::string old_one = folder_.path("old.json"), new_one = folder_.path("new.json");
  const struct {
    std::vector<double> before, now;
    const char* threshold;
    int code;
    const char* verdict;
  } rows[] = {
      {{100, 101, 99, 100, 102}, {90, 91, 89, 90, 92}, "5%", 1, "slower"},
      {{100, 101, 99, 100, 102}, {90, 91, 89, 90, 92}, "0.2", 0, "no difference"},
      {{100, 101, 99, 100, 102}, {97, 98, 96, 97, 99}, "5%", 0, "no difference"},
      {{100, 101, 99, 100, 102}, {97, 98, 96, 97, 98}, "1%", 1, "slower"},
      {{100, 150, 60, 110, 80}, {90, 140, 55, 100, 70}, "5%", 0, "no difference"},
      {{100, 101, 99, 100, 102}, {120, 121, 119, 120, 122}, "5%", 0, "faster"},
  };
  for (const auto& [before, now, threshold, code, verdict] : rows) {
    write_text(old_one, saved(before));
    write_text(new_one, saved(now));
    const Words words = {"bench",       "--saved", new_one, "--baseline", old_one,
                         "--threshold", threshold, "-o",    "json"};
    const json against = measured(words, code).at("baseline");
    EXPECT_EQ(against.at("tests").at(0).at("verdict"), verdict) << against;
    EXPECT_EQ(against.at("fine"), code == 0);
  }
  const auto complaint = [&](Words words, int code) {
    const Program program(folder_, std::move(words));
    EXPECT_EQ(program.wait(), code);
    return program.error();
  };
  write_text(old_one, "[]");
  EXPECT_TRUE(contains(complaint({"bench", "--saved", new_one, "--baseline", old_one}, 1),
                       "old.json: expected what 'tensora bench"));
  write_text(old_one, "{\"format\": \"tensora-suite-1\", \"comparisons\": [{}]}");
  EXPECT_TRUE(contains(complaint({"bench", "--saved", old_one}, 1), "expected what"));
  EXPECT_TRUE(contains(
      complaint({"bench", "--saved", new_one, "--baseline", new_one, "--threshold", "x"}, 2),
      "expected a share such as 5%"));
}

TEST_F(Frameworks, AreNotComparedWithABaselineOfSomethingElse) {
  json now = json::parse(saved({100})), before;
  const std::string old_one = folder_.path("old.json"), new_one = folder_.path("new.json");
  const auto compared = [&](const char* more, int code) {
    write_text(old_one, before.dump());
    write_text(new_one, now.dump());
    const Words words = {"bench", "--saved", new_one, "--baseline", old_one, "-o", "json", more};
    return measured(words, code).at("baseline");
  };
  for (const char* name : {"threads", "cache_type", "batch", "frameworks/0/level"}) {
    const json::json_pointer place(std::string("/comparisons/0/") + name);
    now[place] = 2;
    (before = now)[place] = 1;
    EXPECT_TRUE(contains(compared("--busy", 1).at("unfair").dump(), " was 1 and is 2")) << name;
    EXPECT_EQ(compared("--unfair", 0).at("unfair").size(), 1u) << name;
  }
  now["comparisons"].push_back(json::parse(saved({200})).at("comparisons").at(0));
  now["comparisons"][0]["path"] = "other.gguf";
  EXPECT_EQ(compared("--busy", 1).at("tests").size(), 0u);
  before = now;
  EXPECT_EQ(compared("--busy", 0).at("tests").size(), 2u);
}

// A saved result in which every text, key and untyped value is `text`.
std::string saved_with(const std::string& text) {
  json suite = json::parse(saved({100, 101, 99, 100, 102}));
  const json odd = {{text, text}, {"list", {text}}};
  for (const char* name : {"time", "command"}) suite[name] = text;
  suite["rounds"] = odd;
  suite["machine"] = {{text, text}, {"gpu", odd.at("list")}, {"states", {{text, text}}}};
  json& comparison = suite.at("comparisons").at(0);
  comparison.update({{"model", text}, {"path", odd}, {"unfair", {text, text}}});
  comparison.at("frameworks")
      .at(0)
      .update({{"name", text},
               {"version", text},
               {"level", odd},
               {"precision", text},
               {"status", text},
               {"reason", odd},
               {"notes", {text, text}},
               {"refusals", {text}}});
  json& test = comparison.at("tests").at(0);
  test["test"] = text;
  json& result = test.at("results").at(0);
  result.update(
      {{"framework", text}, {"verdict", text}, {"result", {{text, odd}, {"kind", text}}}});
  result["token_ms"] = {{"p50", 1.}, {"p90", 2.}, {"p99", 3.}, {"max", 4.}};
  result["memory"] = {{"weights_gb", 1.}};
  json deeper = test;
  deeper["n_depth"] = 16;
  comparison.at("tests").push_back(deeper);
  return suite.dump();
}

// The names of a page's tags, in their order.
Words tags_of(const std::string& page) {
  Words tags;
  for (size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1))
    tags.push_back(page.substr(at, page.find_first_of(" >\n", at) - at));
  return tags;
}

TEST_F(Frameworks, NamesCannotChangeTheReport) {
  const std::string file = folder_.path("saved.json"), page = folder_.path("page.html");
  const auto page_of = [&](const std::string& text) {
    write_text(file, saved_with(text));
    const Program program(folder_, {"bench", "--saved", file, "--html", page});
    EXPECT_EQ(program.wait(), 0) << program.error();
    EXPECT_FALSE(contains(program.out(), "\x1b")) << program.out();
    return read_text(page);
  };
  const Words expected = tags_of(page_of("name"));
  ASSERT_GT(expected.size(), 50u);
  const std::string texts[] = {
      "<script>alert(1)</script>",
      "</title></svg><img src=x onerror=alert(1)>",
      "\"><svg onload=alert(1)>",
      "</style><style>*{display:none}",
      "&lt;b&gt; &amp; '\"`",
      "<!-- ",
      "]]>",
      "\x1b[2J\x01\x02\r\n<b>",
      "\u00e4\u00f6\u00fc\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587",
      std::string(20000, '<'),
      "faster",
  };
  for (const std::string& text : texts) {
    const std::string found = page_of(text);
    EXPECT_EQ(tags_of(found), expected) << text.substr(0, 100);
    EXPECT_FALSE(contains(found, "\x1b")) << text.substr(0, 100);
    EXPECT_EQ(valid_utf8(found), found) << text.substr(0, 100);
  }
  write_text(file,
             "{\"format\": \"tensora-suite-1\", \"comparisons\": [{\"model\": \"m\", "
             "\"tests\": [], \"frameworks\": [{\"status\": \"x\", \"equivalence\": 3}]}]}");
  const Program odd(folder_, {"bench", "--saved", file, "--html", page});
  EXPECT_EQ(odd.wait(), 1);
  EXPECT_TRUE(contains(odd.error(), "saved.json: expected what 'tensora bench")) << odd.error();
}

}  // namespace
}  // namespace tensora::llm
#endif
