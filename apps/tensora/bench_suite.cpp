#include "bench_suite.h"

#include <algorithm>
#include <random>

#include "bench_equivalence.h"
#include "bench_machine.h"
#include "bench_statistics.h"
#include "commands.h"
#include "figures.h"
#include "private_folder.h"
#include "tensora/core/device.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;
using llm::BenchTest;

constexpr double kVerdictMargin = 0.02;
constexpr double kSteady = 0.1;  // a larger coefficient of variation is marked
constexpr int64_t kFewestRounds = 5;
constexpr int64_t kCheckedPrompt = 16, kCheckedTokens = 48;
constexpr int kBusyPercent = 5;

// One of the frameworks that are compared.
struct Entrant {
  std::string name;                               // as the user wrote it
  std::unique_ptr<BenchWorker> worker = nullptr;  // null once it has failed
  nlohmann::json loaded = {}, first = {};
  uint64_t gpu_bytes = 0;  // that its process took of the GPU by loading
  Json about = {};
};

class Suite {
 public:
  Suite(const SuiteSettings& settings, const WorkerModel& model, Machine& machine)
      : settings_(settings), model_(model), machine_(machine) {}

  Json run();

 private:
  void start(const std::string& name);
  void check_fairness();
  void check_outputs();
  Json run_test(const BenchTest& test);
  Json result_of(Entrant& entrant, const BenchTest& test, const llm::BenchSamples& samples,
                 const nlohmann::json& opened, const nlohmann::json& closed) const;
  void measure_bandwidth();
  Json memory_of(const Entrant& entrant, const nlohmann::json& closed) const;
  void fail_entrant(Entrant& entrant, const std::string& reason);
  std::string command_for(const BenchTest& test) const;
  Entrant* reference();

  // Runs a step of a framework; one that fails takes no further part.
  template <class Step>
  bool attempt(Entrant& entrant, const Step& step) {
    if (!entrant.worker) return false;
    try {
      step();
      return true;
    } catch (const ChildError& error) {
      fail_entrant(entrant, error.what());
      return false;
    }
  }

  const SuiteSettings& settings_;
  const WorkerModel& model_;
  Machine& machine_;
  std::vector<Entrant> entrants_;
  double bandwidth_ = 0;
  std::vector<std::string> unfair_;
};

void Suite::fail_entrant(Entrant& entrant, const std::string& reason) {
  entrant.worker.reset();  // and its process is gone
  entrant.about["status"] = "failed";
  entrant.about["reason"] = reason;
  if (settings_.log) settings_.log(concat(entrant.name, " is not measured: ", reason));
  if (settings_.require) fail(entrant.name, ": ", reason, " (--require)");
}

Entrant* Suite::reference() {
  const auto found =
      std::ranges::find_if(entrants_, [](const Entrant& one) { return one.worker != nullptr; });
  return found == entrants_.end() ? nullptr : &*found;
}

void Suite::start(const std::string& name) {
  Entrant& entrant = entrants_.emplace_back(Entrant{name});
  const size_t colon = name.find(':');
  WorkerModel model = model_;
  if (colon != name.npos) model.level = name.substr(colon + 1);
  // All run where the first one runs, with keys and values of the same type.
  for (const Entrant& one : entrants_)
    if (one.worker) {
      model.device = one.loaded.at("device");
      model.cache_type = one.loaded.at("cache_type");
      break;
    }
  entrant.about = {{"name", name}, {"status", "measured"}, {"reason", ""}};
  if (settings_.log) settings_.log(concat("loading the model with ", name));
  entrant.worker = std::make_unique<BenchWorker>(name.substr(0, colon), settings_.seconds);
  const uint64_t before = machine_.gpu_memory_used();
  attempt(entrant, [&] {
    entrant.loaded = entrant.worker->load(model);
    const int64_t positions = entrant.loaded.at("positions");
    int64_t prompt = 0;
    for (const BenchTest& test : settings_.tests)
      prompt = std::max(prompt, settings_.fit(test, positions).prompt);
    entrant.first = entrant.worker->first_token(
        std::min(std::max<int64_t>(prompt, 1), positions > 0 ? positions - 1 : prompt));
  });
  if (!entrant.worker) return;
  const uint64_t after = machine_.gpu_memory_used();
  entrant.gpu_bytes = after > before ? after - before : 0;
  const auto& loaded = entrant.loaded;
  const auto& report = loaded.at("report");
  entrant.about.update({{"label", loaded.at("label")},
                        {"device", loaded.at("device")},
                        {"version", report.at("version")},
                        {"level", report.at("level")},
                        {"precision", report.at("precision")},
                        {"dequantized", report.at("dequantized")},
                        {"notes", report.at("notes")},
                        {"refusals", loaded.at("refusals")},
                        {"cold_start",
                         {{"process", loaded.at("process_seconds")},
                          {"framework", loaded.at("framework_seconds")},
                          {"model", loaded.at("load_seconds")},
                          {"first_prefill", entrant.first.at("prefill")},
                          {"first_decode", entrant.first.at("decode")},
                          {"total", entrant.first.at("since_start")}}}});
}

void Suite::check_fairness() {
  const Entrant* first = reference();
  for (const Entrant& one : entrants_) {
    if (!one.worker || &one == first) continue;
    for (const char* what : {"precision", "level"}) {
      const std::string expected = first->about.at(what), got = one.about.at(what);
      if (expected != got)
        unfair_.push_back(concat("the ", what, " of ", one.name, " is ", got, ", that of ",
                                 first->name, " ", expected));
    }
  }
  if (unfair_.empty() || settings_.unfair) return;
  std::string all;
  for (const std::string& reason : unfair_) all += (all.empty() ? "" : "; ") + reason;
  fail("this comparison is not fair: ", all, "; --unfair compares them all the same");
}

void Suite::check_outputs() {
  Entrant* first = reference();
  const PrivateFolder folder("tensora-bench-");
  const int64_t vocabulary = first->loaded.at("vocabulary");
  const int64_t positions = first->loaded.at("positions");
  const int64_t room = positions > 0 ? positions : kCheckedPrompt + kCheckedTokens;
  const int64_t prompt = std::min(kCheckedPrompt, std::max<int64_t>(room / 4, 1));
  std::mt19937_64 random(7);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < prompt; ++i)
    tokens.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary)));
  const std::string expected = folder.path() + "/reference";
  const bool begun = attempt(*first, [&] {
    const auto more =
        first->worker->continue_greedily(tokens, std::min(kCheckedTokens, room - prompt));
    tokens.insert(tokens.end(), more.begin(), more.end());
    first->worker->write_logits(tokens, prompt, expected);
  });
  if (!begun) return reference() ? check_outputs() : void();
  const auto limits =
      limits_of(first->about.at("precision"), first->loaded.at("cache_type").get<std::string>());
  for (Entrant& one : entrants_) {
    if (&one == first) continue;
    attempt(one, [&] {
      const std::string file = folder.path() + "/other";
      if (one.loaded.at("vocabulary") != vocabulary)
        throw ChildError("its vocabulary has another size than that of " + first->name);
      one.worker->write_logits(tokens, prompt, file);
      const Equivalence found = compare_logits(expected, file, tokens, prompt, vocabulary, limits);
      one.about["equivalence"] = found.to_json();
      if (found.failure.empty()) return;
      const std::string reason =
          concat("its output is not that of ", first->name, ": ", found.failure);
      if (!settings_.unfair) throw ChildError(reason);
      unfair_.push_back(concat(one.name, ": ", reason));
    });
  }
}

std::string Suite::command_for(const BenchTest& test) const {
  std::string list;
  for (const Entrant& one : entrants_) list += (list.empty() ? "" : ",") + one.name;
  std::string out = concat("tensora bench ",
                           model_.synthetic.empty()
                               ? shell_word(model_.path)
                               : concat("--synthetic ", model_.synthetic, " --type ", model_.type));
  out += test.prompt > 0 && test.generate > 0
             ? concat(" -p 0 -n 0 --pg ", test.prompt, ",", test.generate)
             : concat(" -p ", test.prompt, " -n ", test.generate);
  out +=
      concat(" -d ", test.depth, " -s ", test.sequences, " --ub ", settings_.batch, " -r ",
             settings_.rounds, " --framework ", list, " --steps-at-once ", settings_.steps_at_once);
  if (const Entrant* first = entrants_.empty() ? nullptr : &entrants_.front();
      first && !first->loaded.is_null())
    out += concat(" --device ", first->loaded.at("device").get<std::string>(), " --ctk ",
                  first->loaded.at("cache_type").get<std::string>(), " -t ",
                  first->loaded.at("threads").get<int64_t>());
  if (!model_.quantize.empty()) out += concat(" --quantize ", model_.quantize);
  if (!model_.level.empty()) out += concat(" --level ", model_.level);
  for (const std::string& setting : model_.settings)
    out += " --framework-option " + shell_word(setting);
  return out + (settings_.unfair ? " --unfair" : "");
}

// Weights, keys and values, workspace, and what the process has beside these: libraries, the
// device's context, the reserve of allocators.
Json Suite::memory_of(const Entrant& entrant, const nlohmann::json& closed) const {
  const auto number = [&](const char* name) { return closed.at(name).get<double>(); };
  const bool on_cpu = Device(entrant.loaded.at("device").get<std::string>()).is_cpu();
  const double weights = number("weight_bytes"), cache = number("cache_bytes");
  const double workspace = number("workspace_bytes");
  double peak = number("host_peak");
  if (!on_cpu) {
    const double loaded = entrant.loaded.at("device_bytes");
    const double own = std::max<double>(static_cast<double>(entrant.gpu_bytes), loaded);
    peak = own + std::max(0., number("device_bytes") - loaded);
  }
  const auto gigabytes = [](double bytes) { return bytes / 1e9; };
  return {{"weights_gb", gigabytes(weights)},
          {"kv_cache_gb", gigabytes(cache)},
          {"workspace_gb", gigabytes(workspace)},
          {"framework_gb", gigabytes(std::max(0., peak - weights - cache - workspace))},
          {"peak_gb", gigabytes(peak)},
          {"host_peak_gb", gigabytes(number("host_peak"))}};
}

Json Suite::result_of(Entrant& entrant, const BenchTest& test, const llm::BenchSamples& samples,
                      const nlohmann::json& opened, const nlohmann::json& closed) const {
  const auto& report = closed.at("report");
  const auto& kernels = report.at("kernel_cache");
  const Json memory = memory_of(entrant, closed);
  llm::BenchmarkResult known;
  known.framework = entrant.loaded.at("label");
  known.model_size = entrant.loaded.at("model_size");
  known.precision = report.at("precision");
  known.model_memory_gb = memory.at("weights_gb");
  known.peak_memory_gb = memory.at("peak_gb");
  known.model_loading_time = entrant.loaded.at("load_seconds");
  known.jit_compilation_time = kernels.at("compile_seconds");
  known.kernel_cache_entries = kernels.at("entries");
  known.kernel_cache_mb = kernels.at("bytes").get<double>() / 1e6;
  known.kernel_cache_hit_rate = kernels.at("hit_rate");
  llm::BenchmarkResult result = llm::result_of(test, samples, known);
  result.optimization_level =
      concat(report.at("level").get<std::string>(), ", ", result.optimization_level);
  const std::vector<double> speeds = samples.speeds(test);
  const Interval speed = median_interval(speeds);
  const double variation = coefficient_of_variation(speeds);
  Json out = {{"framework", entrant.name},     {"samples_ts", speeds},
              {"median_ts", speed.value},      {"low_ts", speed.low},
              {"high_ts", speed.high},         {"coefficient_of_variation", variation},
              {"steady", variation <= kSteady}};
  const auto milliseconds = [](const std::vector<double>& times) {
    Json list;
    for (const auto& [name, share] :
         {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1.}})
      list[name] = 1e3 * llm::percentile(times, share);
    return list;
  };
  if (test.prompt > 0) out["prefill_ms"] = milliseconds(samples.prompt);
  if (test.generate > 0) {
    out["token_ms"] = milliseconds(samples.steps);
    const double rate =
        opened.at("bytes_per_step").get<double>() / llm::percentile(samples.steps, 0.5);
    out["gb_per_second"] = rate / 1e9;
    if (bandwidth_ > 0) out["percent_of_peak"] = 100 * rate / bandwidth_;
  }
  out["warm_up_seconds"] = opened.at("warm_up_seconds");
  out["memory"] = memory;
  out["graphs"] = closed.at("graphs");
  out["kernel_cache"] = kernels;
  out["result"] = Json::parse(result.to_json());
  entrant.about["notes"] = report.at("notes");
  return out;
}

// Processor time per token, which other programs on the machine hardly change, and how many times
// that of the reference it goes into: above 1 is less time.
void add_processor_time(Json& result, const BenchTest& test, const std::vector<double>& seconds,
                        const std::vector<double>& base) {
  std::vector<double> milliseconds = seconds;
  for (double& value : milliseconds) value *= 1e3 / static_cast<double>(test.tokens());
  result["processor_ms_per_token"] = median_interval(milliseconds).value;
  const Interval ratio = paired_ratio(base, seconds);
  result["processor_ratio"] = ratio.value;
  result["processor_ratio_low"] = ratio.low;
  result["processor_ratio_high"] = ratio.high;
}

// In a process of its own: its array would count as memory of a framework.
void Suite::measure_bandwidth() {
  if (!settings_.bandwidth) return;
  try {
    BenchWorker worker("native", settings_.seconds);
    bandwidth_ = worker.bandwidth(reference()->loaded.at("device"));
  } catch (const ChildError& error) {
    if (settings_.log) settings_.log(concat("the memory's speed is not known: ", error.what()));
  }
}

Json Suite::run_test(const BenchTest& test) {
  if (settings_.log) settings_.log(concat("measuring ", test.name()));
  std::vector<llm::BenchSamples> samples(entrants_.size());
  std::vector<std::vector<double>> processor(entrants_.size());
  std::vector<nlohmann::json> opened(entrants_.size());
  for (size_t i = 0; i < entrants_.size(); ++i)
    attempt(entrants_[i], [&] {
      opened[i] = entrants_[i].worker->open(test, settings_.batch, settings_.steps_at_once);
    });
  // The frameworks take turns, so that what else happens on the machine hits all of them.
  for (int64_t round = 0; round < settings_.rounds; ++round) {
    for (size_t i = 0; i < entrants_.size(); ++i)
      attempt(entrants_[i],
              [&] { processor[i].push_back(entrants_[i].worker->repeat(samples[i])); });
    machine_.sample();
  }
  Json out = {{"test", test.name()},           {"n_prompt", test.prompt},
              {"n_gen", test.generate},        {"n_depth", test.depth},
              {"n_sequences", test.sequences}, {"command", command_for(test)},
              {"results", Json::array()}};
  std::vector<double> base, base_time;
  for (size_t i = 0; i < entrants_.size(); ++i)
    attempt(entrants_[i], [&] {
      Json result =
          result_of(entrants_[i], test, samples[i], opened[i], entrants_[i].worker->close());
      const std::vector<double> speeds = samples[i].speeds(test);
      if (base.empty()) {
        base = speeds;
        base_time = processor[i];
      }
      const Interval ratio = paired_ratio(speeds, base);
      const bool is_reference = out["results"].empty();
      result["ratio"] = ratio.value;
      result["ratio_low"] = ratio.low;
      result["ratio_high"] = ratio.high;
      add_processor_time(result, test, processor[i], base_time);
      result["verdict"] = is_reference                       ? "reference"
                          : settings_.rounds < kFewestRounds ? "too few rounds"
                                                             : verdict_of(ratio, kVerdictMargin);
      out["results"].push_back(std::move(result));
    });
  return out;
}

Json Suite::run() {
  for (const std::string& name : settings_.frameworks) start(name);
  Json out = {{"model", ""},
              {"path", model_.synthetic.empty() ? model_.path : "synthetic " + model_.synthetic},
              {"reference", ""}};
  const auto describe = [&] {
    out["unfair"] = unfair_;
    out["frameworks"] = Json::array();
    for (const Entrant& one : entrants_) out["frameworks"].push_back(one.about);
  };
  out["tests"] = Json::array();
  if (!reference()) {
    describe();
    return out;
  }
  check_fairness();
  check_outputs();
  if (const Entrant* first = reference()) {
    out["model"] = first->loaded.at("model");
    out["reference"] = first->name;
    out["cache_type"] = first->loaded.at("cache_type");
    out["threads"] = first->loaded.at("threads");
    out["batch"] = settings_.batch;
    measure_bandwidth();
    out["peak_gb_per_second"] = bandwidth_ / 1e9;
    const int64_t positions = first->loaded.at("positions");
    for (const BenchTest& test : settings_.tests)
      if (reference()) out["tests"].push_back(run_test(settings_.fit(test, positions)));
  }
  for (Entrant& one : entrants_) attempt(one, [&] { one.worker->finish(); });
  describe();
  return out;
}

}  // namespace

Json run_suite(const SuiteSettings& settings) {
  const std::string device = settings.models.empty() ? "cpu" : settings.models[0].device;
  const int gpu = device == "auto" ? 0 : as_usage([&] {
    const Device one(device);
    return one.is_cpu() ? -1 : static_cast<int>(one.index);
  });
  Machine machine(gpu);
  machine.sample();
  check(settings.busy || machine.gpu_utilization() <= kBusyPercent, "another program uses ",
        machine.gpu_utilization(),
        " % of the GPU, which would spoil the figures; --busy measures all the same");
  Json out = {{"format", "tensora-suite-1"},
              {"time", now_text()},
              {"command", settings.command},
              {"rounds", settings.rounds},
              {"comparisons", Json::array()}};
  for (const WorkerModel& model : settings.models)
    out["comparisons"].push_back(Suite(settings, model, machine).run());
  machine.sample();
  out["machine"] = machine.to_json();
  return out;
}

bool is_complete(const Json& result, bool named) {
  for (const Json& comparison : result.at("comparisons")) {
    if (comparison.at("tests").empty()) return false;
    for (const Json& framework : comparison.at("frameworks")) {
      const bool failed = framework.at("status") != "measured";
      // One that is installed but cannot load the model is no failure unless it was asked for.
      if (failed && (named || framework.contains("label"))) return false;
    }
  }
  return true;
}

}  // namespace tensora::cli
