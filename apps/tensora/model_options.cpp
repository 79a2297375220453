#include "model_options.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>

#include "commands.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/backend.h"
#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/registry.h"
#include "tensora/train/progress_bar.h"

namespace tensora::cli {

using Clock = std::chrono::steady_clock;

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("--device", options.device,
                 "auto (a GPU if there is one that works), cpu, cuda, cuda:1, ...")
      ->capture_default_str();
  app.add_flag("--require-gpu", options.require_gpu, "Fail rather than run without a GPU");
  app.add_option("--quantize", options.quantize,
                 "Convert the matrices while loading: float16, int8, nf4, fp8, q8_0, q4_k_m, ...");
  app.add_option("-t,--threads", options.threads, "Threads of the CPU; all unless given")
      ->check(CLI::Range(1, 1024));
}

void add_engine_options(CLI::App& app, ModelOptions& options) {
  app.add_option("-c,--context", options.context,
                 "Tokens of a text with its answer; the model's own limit unless given")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  app.add_option("--cache-type", options.cache_type,
                 "What keys and values are kept as: f32, f16, bf16, q8_0, fp8");
  app.add_option("-b,--batch", options.batch, "Tokens of a prompt that are read at once")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_flag("--batch-invariant", options.batch_invariant,
               "The same tokens whatever else is computed or cached; slower for many requests");
  app.add_option(
         "--steps-at-once", options.steps_at_once,
         "Queue so many tokens on the device before looking at them; 0: what is good there, "
         "1 on the CPU")
      ->check(CLI::Range(int64_t{0}, int64_t{64}))
      ->capture_default_str();
  app.add_flag("!--no-prefix-cache", options.shares_prefixes,
               "Compute every prompt from its first token");
  app.add_option("--draft", options.draft_tokens,
                 "Guess so many tokens per step from what the text says already; 0: off")
      ->check(CLI::Range(int64_t{0}, int64_t{64}))
      ->capture_default_str();
  app.add_option("--draft-model", options.draft_model,
                 "Guess with this smaller model of the same vocabulary");
}

Device choose_device(const ModelOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  if (options.device != "auto") {
    const Device device = as_usage([&] { return Device(options.device); });
    if (options.require_gpu && device.is_cpu())
      throw UsageError("--require-gpu and --device cpu exclude each other");
    require_device(device);
    return device;
  }
  // Where there is no GPU, there is nothing to choose, and nothing to wait for.
  if (!options.require_gpu && !has_backend_library("cuda")) return Device();
  const llm::BackendManager manager;
  // Where a GPU is required, the error itself says why there is none.
  const bool tells = !options.quiet && !options.require_gpu;
  const auto chosen =
      manager.choose({.require_gpu = options.require_gpu, .log = [&](const std::string& line) {
                        if (tells) std::fprintf(stderr, "%s\n", line.c_str());
                      }});
  return chosen->uses_gpu() ? Device("cuda") : Device();
}

LoadedModel load_model(const ModelOptions& options, bool with_tokenizer) {
  const auto began = Clock::now();
  LoadedModel loaded;
  const Device device = choose_device(options);
  loaded.resources = std::make_shared<llm::ResourceManager>(device);
  const llm::ModelFile file = llm::ModelFile::open(llm::resolve_model(options.model));
  llm::MemoryPlanOptions plan{
      .context = options.context, .batch = options.batch, .quantize = options.quantize};
  if (!options.cache_type.empty()) plan.cache_dtype = dtype_named(options.cache_type);
  if (const std::string note = loaded.resources->admit(file, plan); !note.empty())
    std::fprintf(stderr, "note: %s\n", note.c_str());
  if (with_tokenizer) {
    loaded.tokenizer = llm::load_tokenizer(file);
    loaded.chat = llm::load_chat_template(file, *loaded.tokenizer);
  }
  std::unique_ptr<train::ProgressBar> bar;
  const bool shows = !options.quiet && isatty(2) != 0;
  loaded.model = llm::load_model(
      file, {.device = device,
             .quantize = options.quantize,
             .positions = options.context,
             .progress = [&](int64_t done, int64_t total) {
               // A model that is only mapped is there at once: no bar for it.
               if (!shows || std::chrono::duration<double>(Clock::now() - began).count() < 0.3)
                 return;
               if (!bar)
                 bar = std::make_unique<train::ProgressBar>(
                     total >> 20, train::ProgressBarOptions{.title = "loading", .unit = "MiB"});
               bar->update(done >> 20);
             }});
  loaded.summary = summary_of(file, *loaded.model, options.quantize);
  loaded.framework = concat("native-", name(device.type));
  loaded.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return loaded;
}

DType dtype_named(const std::string& name) {
  static const std::map<std::string, DType> short_names = {
      {"f32", kFloat32}, {"f16", kFloat16}, {"bf16", kBFloat16}, {"fp8", kFloat8E4M3}};
  if (const auto found = short_names.find(name); found != short_names.end()) return found->second;
  for (const DTypeInfo& info : dtype_info_table)
    if (info.name == name) return info.dtype;
  throw UsageError("there is no type '" + name + "'; expected f32, f16, bf16, q8_0 or fp8");
}

std::unique_ptr<llm::Engine> make_engine(const LoadedModel& loaded, const ModelOptions& options,
                                         int64_t sequences) {
  const int64_t trained = loaded.model->config().context_length;
  if (options.context > trained && trained > 0 && !options.quiet)
    std::fprintf(stderr,
                 "note: the model was trained for texts of %lld tokens; beyond that it may "
                 "lose the thread\n",
                 static_cast<long long>(trained));
  llm::EngineOptions engine{.context = options.context,
                            .max_sequences = sequences,
                            .max_batch_tokens = std::max(options.batch, sequences),
                            .share_prefixes = options.shares_prefixes,
                            .batch_invariant = options.batch_invariant,
                            .steps_at_once = options.steps_at_once};
  if (!options.cache_type.empty()) engine.cache_dtype = dtype_named(options.cache_type);
  engine.speculation.draft_tokens = options.draft_tokens;
  if (!options.draft_model.empty()) {
    if (options.draft_tokens == 0) engine.speculation.draft_tokens = 4;
    engine.speculation.draft_model =
        llm::load_model(llm::ModelFile::open(llm::resolve_model(options.draft_model)),
                        {.device = loaded.model->device(), .positions = options.context});
  }
  return std::make_unique<llm::Engine>(
      llm::EngineParts{loaded.model, loaded.tokenizer, loaded.chat}, engine);
}

}  // namespace tensora::cli
