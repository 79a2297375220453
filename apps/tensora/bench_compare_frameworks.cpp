// `tensora bench --framework a,b`: frameworks are compared.
#include <cstdio>

#include "bench_options.h"
#include "bench_suite.h"
#include "commands.h"
#include "figures.h"
#include "files.h"
#include "interrupt.h"
#include "tensora/llm/backends/backend_manager.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;

// "5%", "5 %" or "0.05"
double parse_threshold(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const bool percent = unit == "%" || unit == " %";
  const double share = percent ? value / 100 : value;
  if (end == text.c_str() || (!percent && !unit.empty()) || !(share >= 0 && share < 1))
    throw UsageError("--threshold: expected a share such as 5% or 0.05, got '" + text + "'");
  return share;
}

std::vector<std::string> frameworks_of(const std::string& list) {
  if (list != "all") return split_list(list);
  std::vector<std::string> out = llm::BackendManager().names();
  for (const std::string& name : llm::installed_frameworks())
    if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  return out;
}

// The words of this process.
std::string command_line() {
  std::string out = "tensora";
  const std::string words = read_file("/proc/self/cmdline");
  for (size_t begin = words.find('\0') + 1; begin > 0 && begin < words.size();) {
    const size_t end = std::min(words.find('\0', begin), words.size());
    out += " " + shell_word(words.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

int64_t single(const std::string& list, const std::string& option) {
  const auto numbers = parse_numbers(list, option);
  if (numbers.size() != 1)
    throw UsageError(option + ": expected one number to compare frameworks with, got '" + list +
                     "'");
  return numbers[0];
}

SuiteSettings suite_of(const BenchSettings& settings) {
  SuiteSettings suite{.frameworks = frameworks_of(settings.model.framework),
                      .named = settings.model.framework != "all",
                      .require = settings.model.require,
                      .unfair = settings.unfair,
                      .busy = settings.busy,
                      .bandwidth = settings.measures_bandwidth,
                      .tests = tests_of(settings),
                      .rounds = settings.repetitions,
                      .batch = single(settings.batches, "--batch"),
                      .steps_at_once = settings.steps_at_once,
                      .seconds = settings.seconds,
                      .command = command_line()};
  WorkerModel model{.quantize = settings.model.quantize,
                    .device = settings.model.device,
                    .level = settings.model.level,
                    .cache_type = settings.model.cache_type,
                    .settings = settings.model.framework_settings};
  if (!settings.threads.empty()) model.threads = single(settings.threads, "--threads");
  for (const std::string& path : settings.models) {
    model.path = path;
    suite.models.push_back(model);
  }
  model.path.clear();
  for (const std::string& shape : settings.synthetic)
    for (const std::string& type : split_list(settings.types)) {
      model.synthetic = shape;
      model.type = type;
      suite.models.push_back(model);
    }
  suite.fit = [&settings](const llm::BenchTest& test, int64_t positions) {
    return fitted(test, settings, positions);
  };
  suite.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return suite;
}

std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

bool compares_frameworks(const BenchSettings& settings) {
  return settings.model.framework == "all" ||
         settings.model.framework.find_first_of(",:") != std::string::npos ||
         !settings.html.empty() || !settings.baseline.empty() || !settings.saved.empty();
}

void compare_frameworks(const BenchSettings& settings) {
  const double threshold = parse_threshold(settings.threshold);
  const bool json = settings.output == "json";
  if (!json && settings.output != "md")
    throw UsageError("-o: expected md or json for a comparison of frameworks, got " +
                     settings.output);
  if (!settings.plot.empty())
    throw UsageError("--plot: a comparison of frameworks draws its plots into --html FILE");
  std::optional<Json> baseline;  // read before hours are spent
  if (!settings.baseline.empty())
    baseline = parse_suite(settings.baseline, read_file(settings.baseline));
  Json result;
  bool named = false;
  if (!settings.saved.empty()) {
    result = parse_suite(settings.saved, read_file(settings.saved));
  } else {
    const SuiteSettings suite = suite_of(settings);
    if (suite.frameworks.empty()) throw UsageError("--framework: expected a name, got none");
    if (suite.models.empty()) throw UsageError("expected a MODEL or --synthetic NAME");
    named = suite.named;
    const Interrupt interrupt{SIGINT, SIGTERM};
    result = run_suite(suite);
  }
  const std::string wrong =
      baseline ? compare_with_baseline(result, *baseline, threshold, settings.unfair) : "";
  std::string report, page;
  try {
    report = json ? dumped(result) : suite_table(result);
    if (!settings.html.empty()) page = suite_html(result);
  } catch (const Json::exception& error) {
    if (settings.saved.empty()) throw;
    fail(settings.saved,
         ": expected what 'tensora bench --framework ... -o json' writes: ", error.what());
  }
  write_file(settings.file.empty() ? "-" : settings.file, report);
  if (!settings.html.empty()) write_file(settings.html, page);
  if (!wrong.empty())
    std::fprintf(stderr, "the baseline %s: %s\n", settings.baseline.c_str(),
                 printable(wrong, 500).c_str());
  if (!wrong.empty() || !is_complete(result, named)) throw Failure();
}

}  // namespace tensora::cli
