#include "commands.h"

#include <filesystem>
#include <set>

#include "bench_machine.h"
#include "bench_options.h"
#include "bench_worker.h"
#include "figures.h"
#include "files.h"
#include "number_checks.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/backend.h"
#include "tensora/dispatch/build_info.h"

namespace tensora::cli {
namespace {

std::string gpu_name(Device device) {
  const std::filesystem::path folder = "/proc/driver/nvidia/gpus";
  std::error_code error;
  if (device.is_cpu()) return {};
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    return line_behind((entry.path() / "information").string(), "Model");
  return to_string(device);
}

}  // namespace

std::vector<llm::BenchTest> tests_of(const BenchSettings& settings) {
  std::vector<llm::BenchTest> tests;
  const auto prompts = parse_numbers(settings.prompts, "--n-prompt");
  const auto generated = parse_numbers(settings.generated, "--n-gen");
  for (const int64_t depth : parse_numbers(settings.depths, "--n-depth"))
    for (const int64_t sequences : parse_numbers(settings.sequences, "--sequences")) {
      const auto add = [&](int64_t prompt, int64_t generate) {
        if (prompt + generate == 0) return;
        tests.push_back({prompt, generate, depth, sequences});
        as_usage([&] { tests.back().check_valid(); });
      };
      if (settings.batched) {
        for (const int64_t prompt : prompts)
          for (const int64_t generate : generated) add(prompt, generate);
        continue;
      }
      for (const int64_t prompt : prompts) add(prompt, 0);
      for (const int64_t generate : generated) add(0, generate);
      for (const std::string& pair : settings.both) {
        const auto numbers = parse_numbers(pair, "--pg");
        if (numbers.size() != 2)
          throw UsageError("--pg: expected PROMPT,GENERATED such as 512,128, got '" + pair + "'");
        add(numbers[0], numbers[1]);
      }
    }
  if (tests.empty()) throw UsageError("there is nothing to run: all tests have no tokens");
  return tests;
}

llm::BenchTest fitted(llm::BenchTest test, const BenchSettings& settings, int64_t positions) {
  const auto fit = [&](int64_t& size, const CLI::Option* option) {
    const int64_t room = positions - test.depth - (test.prompt + test.generate - size);
    if (option->count() == 0 && size > room && room > 0) size = room;
  };
  const std::string before = test.name();
  if (positions > 0) {
    fit(test.prompt, settings.prompt_option);
    fit(test.generate, settings.generate_option);
  }
  static std::set<std::string> told;
  if (test.name() != before && told.insert(before).second)
    std::fprintf(stderr, "note: the model has %lld positions: %s becomes %s\n",
                 static_cast<long long>(positions), before.c_str(), test.name().c_str());
  return test;
}

namespace {

class Bench {
 public:
  explicit Bench(const BenchSettings& settings) : settings_(settings), tests_(tests_of(settings)) {
    backend_ = choose_backend(settings.model);
    device_ = backend_->device();
    cpu_ = line_behind("/proc/cpuinfo", "model name");
    gpu_ = gpu_name(device_);
    version_ = concat("tensora ", build_info().version, ", ", build_info().compiler);
  }

  std::vector<BenchRecord> run() {
    for (const std::string& path : settings_.models) {
      ModelOptions options = settings_.model;
      options.model = path;
      run_model(path, [&] { return load_model(options, false, backend_); });
    }
    for (const std::string& name : settings_.synthetic)
      for (const std::string& type : split_list(settings_.types))
        run_model("synthetic " + name, [&] {
          LoadedModel loaded;
          backend_->cleanup();
          loaded.resources = std::make_shared<llm::ResourceManager>(device_);
          backend_->load_synthetic(name, type, backend_options(settings_.model));
          loaded.info = backend_->model_info();
          loaded.backend = backend_;
          return loaded;
        });
    return std::move(records_);
  }

 private:
  template <class Load>
  void run_model(const std::string& path, const Load& load) {
    LoadedModel loaded = load();
    loaded.resources->metrics().describe(backend_->label(), loaded.info.summary);
    loaded.resources->metrics().set_loading(loaded.seconds);
    std::vector<int64_t> threads{get_num_threads()};
    if (!settings_.threads.empty()) threads = parse_numbers(settings_.threads, "--threads");
    for (const int64_t count : threads)
      for (const int64_t batch : parse_numbers(settings_.batches, "--batch"))
        for (const llm::BenchTest& test : tests_) {
          if (get_num_threads() != count) set_num_threads(static_cast<int>(count));
          if (settings_.measures_bandwidth && bandwidth_[count] == 0)
            bandwidth_[count] = llm::measured_bandwidth(device_);
          run_test(path, loaded, fitted(test, settings_, loaded.info.positions), batch);
        }
  }

  void run_test(const std::string& path, const LoadedModel& loaded, const llm::BenchTest& test,
                int64_t batch) {
    const DType cache = settings_.model.cache_type.empty()
                            ? loaded.info.cache_dtype
                            : dtype_named(settings_.model.cache_type);
    BenchRecord record;
    record.model_path = path;
    record.model = loaded.info.summary;
    record.test = test;
    record.time = now_text();
    record.samples = llm::run_benchmark(*backend_, test,
                                        {.repetitions = settings_.repetitions,
                                         .batch = batch,
                                         .cache_dtype = cache,
                                         .warms_up = settings_.warms_up,
                                         .steps_at_once = settings_.steps_at_once});
    record.result = llm::result_of(test, record.samples, loaded.resources->metrics().result());
    record.framework = backend_->label();
    record.device = to_string(device_);
    record.cpu = cpu_;
    record.gpu = gpu_;
    record.version = version_;
    record.cache_type = tensora::name(cache);
    record.batch = batch;
    record.threads = get_num_threads();
    record.bandwidth = bandwidth_[record.threads];
    record.command = command_of(record);
    if (test.generate > 0)
      record.bytes_per_second =
          llm::bytes_per_step(loaded.info.summary, loaded.info.config, test, cache) /
          llm::spread_of(record.samples.steps).mean;
    records_.push_back(std::move(record));
  }

  std::string command_of(const BenchRecord& record) const {
    const llm::BenchTest& test = record.test;
    const ModelOptions& model = settings_.model;
    std::string out = "tensora bench ";
    out += record.model_path.rfind("synthetic ", 0) == 0
               ? concat("--synthetic ", record.model_path.substr(10), " --type ",
                        record.model.precision)
               : shell_word(record.model_path);
    if (!model.quantize.empty()) out += " --quantize " + model.quantize;
    if (test.prompt > 0 && test.generate > 0)
      out += concat(" -p 0 -n 0 --pg ", test.prompt, ",", test.generate);
    else
      out += concat(" -p ", test.prompt, " -n ", test.generate);
    out += concat(" -d ", test.depth, " -s ", test.sequences, " --ub ", record.batch, " -t ",
                  record.threads, " -r ", settings_.repetitions, " --framework ",
                  model.shard > 1 ? concat("native --shard ", model.shard) : backend_->name(),
                  " --device ", record.device, " --ctk ", record.cache_type, " --steps-at-once ",
                  settings_.steps_at_once);
    if (!model.level.empty()) out += " --level " + shell_word(model.level);
    for (const std::string& setting : model.framework_settings)
      out += " --framework-option " + shell_word(setting);
    return out + (settings_.warms_up ? "" : " --no-warmup");
  }

  const BenchSettings& settings_;
  std::vector<llm::BenchTest> tests_;
  std::shared_ptr<llm::FrameworkBackend> backend_;
  Device device_;
  std::string cpu_, gpu_, version_;
  std::map<int64_t, double> bandwidth_;  // by threads
  std::vector<BenchRecord> records_;
};

void bench(const BenchSettings& settings) {
  if (!settings.compared.empty()) {
    std::string text;
    const bool fine = compare_records(settings.compared[0], settings.compared[1], text);
    std::fputs(text.c_str(), stdout);
    if (!fine) fail("some tests became slower");
    return;
  }
  if (settings.is_worker) return serve_bench_worker();
  for (const std::string& path : {settings.file, settings.plot, settings.html})
    check_writable(path);
  if (compares_frameworks(settings)) {
    if (settings.model.shard > 1)
      throw UsageError("--shard: a comparison of frameworks runs them on one rank each");
    return compare_frameworks(settings);
  }
  if (settings.models.empty() && settings.synthetic.empty())
    throw UsageError("expected a MODEL, --synthetic NAME or --compare A B");
  const std::vector<BenchRecord> records = Bench(settings).run();
  const std::string text = settings.batched && settings.output == "md"
                               ? batched_table(records)
                               : format_records(records, settings.output);
  write_file(settings.file.empty() ? "-" : settings.file, text);
  if (!settings.plot.empty()) write_file(settings.plot, bench_svg(records));
}

void add_tests(CLI::App& app, BenchSettings& settings) {
  const auto list = [&](const char* flag, std::string& member, const char* help) {
    return app.add_option(flag, member, help)->type_name("LIST")->capture_default_str();
  };
  settings.prompt_option =
      list("-p,--n-prompt", settings.prompts, "Prefill prompts of N tokens: tests ppN");
  settings.generate_option =
      list("-n,--n-gen", settings.generated, "Decode N tokens one by one: tests tgN");
  app.add_option("--pg,--n-pg", settings.both, "A prompt, then tokens: test ppP+tgG; repeatable")
      ->type_name("P,G")
      ->allow_extra_args(false);
  list("-d,--n-depth", settings.depths,
       "Context depth: N tokens are in the KV cache before the test, '@ dN'");
  list("-s,--sequences", settings.sequences, "Concurrent sequences: 'xN'");
  app.add_flag("--batched", settings.batched,
               "Combine every prompt size with every number of tokens, like llama-batched-bench");
  app.add_option("-r,--repetitions", settings.repetitions, "Repetitions of each test")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_flag("!--no-warmup", settings.warms_up, "Time the first run, too");
  app.add_option(
         "--steps-at-once", settings.steps_at_once,
         "Decode N greedy tokens on the device between host synchronizations. 1: one random "
         "token at a time, like llama-bench; 0: the engine's choice")
      ->check(CLI::Range(int64_t{0}, int64_t{64}))
      ->capture_default_str();
  list("--ub,-b,--batch", settings.batches, "Prompt batch size, in tokens");
  list("-t,--threads", settings.threads, "CPU threads. Default: all");
  app.add_option("--ctk,--ctv,--cache-type", settings.model.cache_type,
                 "KV-cache data type: f32, f16, bf16, q8_0, fp8");
}

void add_comparison(CLI::App& app, BenchSettings& settings) {
  constexpr const char* group = "Comparing frameworks";
  app.add_option("--html", settings.html, "Write a report with plots to an HTML file")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--baseline", settings.baseline,
                 "Compare with an earlier result of -o json; exit code 1 if a test became slower")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--threshold", settings.threshold, "Tolerated slowdown against the baseline")
      ->type_name("SHARE")
      ->capture_default_str()
      ->group(group);
  app.add_option("--saved", settings.saved,
                 "Measure nothing: report a result of -o json, against a baseline if given")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--unfair", settings.unfair,
               "Compare different precisions, optimization levels or outputs; the result says so")
      ->group(group);
  app.add_flag("--busy", settings.busy, "Measure although another program uses the GPU")
      ->group(group);
  app.add_option("--timeout", settings.seconds,
                 "Seconds that one step of a framework (load, one repetition) may take")
      ->check(positive)
      ->capture_default_str()
      ->group(group);
  app.add_flag("--worker", settings.is_worker)->group("");  // one framework's process
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure how fast models run here");
  auto settings = std::make_shared<BenchSettings>();
  command->add_option("models,-m,--model", settings->models, "GGUF files, folders or names")
      ->type_name("MODEL");
  auto* synthetic =
      command
          ->add_option("--synthetic", settings->synthetic,
                       "A registered shape with random weights: llama3-1b, llama3-8b, ...; "
                       "repeatable")
          ->allow_extra_args(false);
  command->add_option("--type", settings->types, "Data types of synthetic weights")
      ->needs(synthetic)
      ->type_name("LIST")
      ->capture_default_str();
  add_tests(*command, *settings);
  add_comparison(*command, *settings);
  add_framework_options(*command, settings->model);
  command->add_option("--quantize", settings->model.quantize, "Convert the matrices at loading");
  command->add_option("-o,--output", settings->output, "Output format")
      ->check(CLI::IsMember({"md", "csv", "json", "jsonl"}))
      ->capture_default_str();
  command->add_flag_callback(
      "--json", [settings] { settings->output = "json"; }, "Same as -o json");
  command->add_option("--out", settings->file, "Write to a file");
  command->add_option("--plot", settings->plot, "Draw the speeds as an SVG file");
  command->add_flag("!--no-bandwidth", settings->measures_bandwidth,
                    "Do not measure the memory's speed for '% peak'");
  command->add_option("--compare", settings->compared, "Compare two files of --output json")
      ->expected(2)
      ->type_name("BEFORE AFTER");
  command->footer(
      "Tests, options and fields are those of llama-bench: mean and deviation of tokens per "
      "second,\n"
      "without tokenizing and sampling. Default sizes shrink to what a model of few positions can\n"
      "hold. A LIST is 1,2,4 or a range 1-4, 128-512+128, 1-64*2; all combinations are run. GB/s "
      "is\n"
      "what decoding reads: weights, keys and values; '% peak' compares that with the reading\n"
      "speed measured here.\n\n"
      "With --framework all or a list (native,libtorch:eager: name and level), each framework runs "
      "in a\n"
      "process of its own, on the same weights and tokens. Its output is compared first; then they "
      "take\n"
      "turns for -r rounds.\n\n"
      "Examples:\n"
      "  tensora bench model.gguf                              pp512 and tg128\n"
      "  tensora bench model.gguf -p 0 -n 64 -d 0-8192+2048 --plot depth.svg\n"
      "  tensora bench --synthetic llama3-1b --type q4_k_m,q8_0,float16\n"
      "  tensora bench model.gguf --batched -p 128 -n 64 -s 1-32*2\n"
      "  tensora bench model.gguf --framework all --html report.html\n"
      "  tensora bench model.gguf --framework native,libtorch -o json --out new.json \\\n"
      "    --baseline old.json --threshold 3%\n"
      "  tensora bench serve http://127.0.0.1:8080 --ladder 1,16,64\n"
      "  tensora bench model.gguf -o json --out after.json && \\\n"
      "    tensora bench --compare before.json after.json");
  add_bench_serve(*command);
  command->callback([settings, command] {
    if (command->get_subcommands().empty()) bench(*settings);
  });
}

}  // namespace tensora::cli
