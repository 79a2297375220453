#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_worker.h"
#include "tensora/llm/benchmark.h"

namespace tensora::cli {

/// A comparison of frameworks, each in a process of its own.
struct SuiteSettings {
  std::vector<std::string> frameworks = {};  // "native" or "libtorch:eager", the reference first
  bool named = true;                         // by the user, who should know of one that is missing
  bool require = false;                      // the first that cannot be used ends the run
  bool unfair = false;                       // compare different precisions, levels and outputs
  bool busy = false;                         // measure on a GPU that others use
  bool bandwidth = true;
  std::vector<WorkerModel> models = {};
  std::vector<llm::BenchTest> tests = {};
  int64_t rounds = 5, batch = 512, steps_at_once = 1;
  double seconds = 300;  // that one step of a framework may take
  std::string command = {};
  /// A test made to fit a model of so many positions.
  std::function<llm::BenchTest(const llm::BenchTest&, int64_t positions)> fit = nullptr;
  std::function<void(const std::string& line)> log = nullptr;
};

/// Runs all of it; what was found, as docs/benchmarking-models.md describes it. Throws where
/// precisions or levels differ without `unfair`, and Interrupted for Ctrl-C.
nlohmann::ordered_json run_suite(const SuiteSettings& settings);

/// Compares each result with the one of the same model, framework and test in `baseline`, a result
/// of run_suite, and takes that down in `result`. Returns what is wrong, or nothing: a test is
/// slower, its median lower by more than `threshold` and the interval of the ratio without 1; the
/// threads, device, types or level differ, and not `unfair`; nothing is the same.
std::string compare_with_baseline(nlohmann::ordered_json& result,
                                  const nlohmann::ordered_json& baseline, double threshold,
                                  bool unfair);

/// What a suite wrote, read again. Throws where the text is something else.
nlohmann::ordered_json parse_suite(const std::string& name, const std::string& text);
/// Whether everything that was asked for was measured, and all outputs are equivalent.
bool is_complete(const nlohmann::ordered_json& result, bool named);

/// Tables for a terminal.
std::string suite_table(const nlohmann::ordered_json& result);
/// A page that needs nothing else.
std::string suite_html(const nlohmann::ordered_json& result);

}  // namespace tensora::cli
