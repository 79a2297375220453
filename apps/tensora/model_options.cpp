#include "model_options.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "commands.h"
#include "files.h"
#include "framework_probe.h"
#include "number_checks.h"
#include "tensora/base/thread_pool.h"
#include "tensora/distributed/sharded_model.h"
#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/registry.h"
#include "tensora/train/progress_bar.h"

namespace tensora::cli {

using Clock = std::chrono::steady_clock;

void add_framework_options(CLI::App& app, ModelOptions& options) {
  app.add_option("--framework", options.framework,
                 "Framework that runs the model, or a list of them, the best first: native, the "
                 "NAME of an installed libtensora_framework_NAME.so, or auto ('tensora frameworks' "
                 "lists them)")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--device", options.device, "auto (a GPU if one works), cpu, cuda, cuda:1, ...")
      ->capture_default_str();
  app.add_option("--shard", options.shard,
                 "Tensor parallelism: divide the matrices and the KV cache over N ranks, which are "
                 "threads of this process on the CPU. Default 1 (off)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--require-gpu", options.require_gpu, "Fail rather than run without a GPU");
  app.add_flag("--require", options.require,
               "Fail rather than run with another framework than the first of the list");
  app.add_option("--level", options.level,
                 "Optimization level: eager, graph (CUDA graphs), or what the framework offers. "
                 "Default: its best")
      ->type_name("NAME");
  app.add_option("--framework-option", options.framework_settings,
                 "Setting of the framework; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--framework-timeout", options.framework_seconds,
                 "Seconds that the self-test of an installed framework may take in a process of "
                 "its own, and that it may take to load a tokenizer. 0: test in this process, "
                 "without limits")
      ->check(non_negative)
      ->capture_default_str();
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  add_framework_options(app, options);
  app.add_option("--quantize", options.quantize,
                 "Convert the matrices while loading: float16, int8, nf4, fp8, q8_0, q4_k_m, ...");
  app.add_option("-t,--threads", options.threads, "CPU threads. Default: all")
      ->check(CLI::Range(1, 1024));
}

void add_engine_options(CLI::App& app, ModelOptions& options) {
  app.add_option("-c,--context", options.context,
                 "Context size (prompt and generated tokens). Default: the model's own limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  app.add_option("--cache-type", options.cache_type,
                 "KV-cache data type: f32, f16, bf16, q8_0, fp8");
  app.add_option("-b,--batch", options.batch, "Prompt batch size, in tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_flag(
      "--batch-invariant", options.batch_invariant,
      "Give the same tokens whatever else is computed or cached; slower for many requests");
  app.add_option("--steps-at-once", options.steps_at_once,
                 "Decode N steps on the device between host synchronizations. Default 0: automatic")
      ->check(CLI::Range(int64_t{0}, int64_t{64}))
      ->capture_default_str();
  app.add_flag("!--no-prefix-cache", options.shares_prefixes,
               "Compute every prompt from its first token");
  app.add_option("--draft", options.draft_tokens,
                 "Speculative decoding: draft up to N tokens per step by prompt lookup (n-grams). "
                 "Default 0 (off)")
      ->check(CLI::Range(int64_t{0}, int64_t{64}))
      ->capture_default_str();
  app.add_option("--draft-model", options.draft_model,
                 "Speculative decoding: draft with this smaller model of the same vocabulary");
}

namespace {

std::unique_ptr<llm::FrameworkBackend> sharded_backend(
    const ModelOptions& options, const std::function<void(llm::FrameworkBackend&)>& prepare) {
  if (options.framework != "native" && options.framework != "auto")
    throw UsageError("--shard: only the framework native divides models, got --framework " +
                     options.framework);
  if (options.require_gpu || (options.device != "auto" && options.device != "cpu"))
    throw UsageError("--shard: the ranks of one process compute on the CPU; expected --device cpu");
  auto backend = std::make_unique<distributed::ShardedBackend>(options.shard);
  if (prepare) prepare(*backend);
  return backend;
}

}  // namespace

std::unique_ptr<llm::FrameworkBackend> choose_backend(
    const ModelOptions& options, const std::function<void(llm::FrameworkBackend&)>& prepare) {
  if (options.threads > 0) set_num_threads(options.threads);
  if (options.shard > 1) return sharded_backend(options, prepare);
  llm::BackendChoice choice{.frameworks = split_list(options.framework),
                            .require_gpu = options.require_gpu,
                            .fallback = !options.require,
                            .prepare = prepare};
  if (choice.frameworks.empty()) throw UsageError("--framework: expected a name, got none");
  if (options.device != "auto") {
    choice.device = as_usage([&] { return Device(options.device); });
    if (options.require_gpu && choice.device->is_cpu())
      throw UsageError("--require-gpu and --device cpu exclude each other");
  }
  if (options.framework_seconds > 0)
    choice.inspect = [&](const std::string& name) {
      return probe_framework(name, options.framework_seconds, choice.device, false);
    };
  // The reasons of a single candidate are in the error itself; CPU only is the usual case.
  std::vector<std::string> lines;
  choice.log = [&](const std::string& line) { lines.push_back(line); };
  auto backend = llm::BackendManager().choose(choice);
  if (!options.quiet && lines.size() > 1)
    for (const std::string& line : lines) std::fprintf(stderr, "%s\n", line.c_str());
  return backend;
}

llm::BackendOptions backend_options(const ModelOptions& options, int64_t sequences) {
  llm::BackendOptions out{
      .quantize = options.quantize,
      .level = options.level,
      .engine = {.context = options.context,
                 .max_sequences = sequences,
                 // Prompts are read beside the answers that go on.
                 .max_batch_tokens = options.batch + (sequences > 1 ? sequences : 0),
                 .share_prefixes = options.shares_prefixes,
                 .batch_invariant = options.batch_invariant,
                 .steps_at_once = options.steps_at_once},
      .draft_model = options.draft_model,
      .chat_template = options.chat_template};
  if (!options.cache_type.empty()) out.engine.cache_dtype = dtype_named(options.cache_type);
  for (const std::string& text : options.framework_settings) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == text.npos)
      throw UsageError("--framework-option: expected KEY=VALUE, got '" + text + "'");
    out.settings[text.substr(0, equals)] = text.substr(equals + 1);
  }
  out.engine.speculation.draft_tokens = options.draft_tokens;
  out.note = [quiet = options.quiet](const std::string& note) {
    if (!quiet) std::fprintf(stderr, "note: %s\n", note.c_str());
  };
  return out;
}

namespace {

// Ends the program with a sentence where a framework does not return: nothing can end its thread.
class TimeLimit {
 public:
  // No limit where `seconds` is 0.
  TimeLimit(const std::string& framework, const std::string& function, double seconds) {
    if (seconds <= 0) return;
    thread_ = std::thread([this, framework, function, seconds] {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_over_; }))
        return;
      std::fprintf(stderr,
                   "tensora: the framework %s has not returned from %s within %g s "
                   "(--framework-timeout)\n",
                   framework.c_str(), function.c_str(), seconds);
      _exit(1);
    });
  }
  ~TimeLimit() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

LoadedModel load_model(const ModelOptions& options, bool with_tokenizer,
                       std::shared_ptr<llm::FrameworkBackend> backend, int64_t sequences) {
  const auto began = Clock::now();
  llm::BackendOptions how = backend_options(options, sequences);
  LoadedModel loaded;
  std::unique_ptr<train::ProgressBar> bar;
  const bool shows = !options.quiet && isatty(2) != 0;
  how.progress = [&](int64_t done, int64_t total) {
    // A model that is only mapped is there at once: no bar for it.
    if (!shows || std::chrono::duration<double>(Clock::now() - began).count() < 0.3) return;
    if (!bar)
      bar = std::make_unique<train::ProgressBar>(
          total >> 20, train::ProgressBarOptions{.title = "loading", .unit = "MiB"});
    bar->update(done >> 20);
  };
  const auto prepare = [&](llm::FrameworkBackend& chosen) {
    chosen.cleanup();  // before the baseline of memory is taken
    loaded.resources = std::make_shared<llm::ResourceManager>(chosen.device());
    chosen.load_model(options.model, how);
    if (with_tokenizer) {
      const TimeLimit limit(chosen.label(), "load_tokenizer",
                            chosen.name() == "native" ? 0 : options.framework_seconds);
      chosen.load_tokenizer(options.model);
    }
    bar.reset();
  };
  if (backend)
    prepare(*backend);
  else
    backend = choose_backend(options, prepare);
  loaded.info = backend->model_info();
  loaded.backend = std::move(backend);
  loaded.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return loaded;
}

llm::Pooling chosen_pooling(const std::string& name, const std::string& model) {
  if (!name.empty()) return llm::pooling_named(name);
  const std::string path = llm::resolve_model(model);
  // Frameworks may load other files than these, about which nothing is known here.
  if (!path.ends_with(".gguf") && !std::filesystem::is_directory(path)) return llm::Pooling::mean;
  return llm::pooling_of(llm::ModelFile::open(path)).value_or(llm::Pooling::mean);
}

DType dtype_named(const std::string& name) {
  static const std::map<std::string, DType> caches = {{"f32", kFloat32},
                                                      {"f16", kFloat16},
                                                      {"bf16", kBFloat16},
                                                      {"fp8", kFloat8E4M3},
                                                      {"q8_0", kQ8_0}};
  for (const auto& [short_name, dtype] : caches)
    if (name == short_name || name == tensora::name(dtype)) return dtype;
  throw UsageError("there is no KV-cache type '" + name +
                   "'; expected f32, f16, bf16, q8_0 or fp8");
}

}  // namespace tensora::cli
