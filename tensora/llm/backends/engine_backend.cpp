#include "tensora/llm/backends/engine_backend.h"

#include "tensora/core/backend.h"
#include "tensora/core/queue.h"
#include "tensora/jit/kernel_store.h"
#include "tensora/llm/lora.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/sequence_runner.h"

namespace tensora::llm {
namespace {

// Speculative decoding by a draft model, unless the user says how many tokens to draft.
constexpr int64_t kDraftTokens = 4;

// Of the kernels that this process has compiled, or found compiled.
KernelCacheStats kernel_cache_stats() {
  const jit::KernelStatistics& found = jit::kernel_statistics();
  KernelCacheStats stats{.hits = static_cast<int64_t>(found.memory_hits + found.disk_hits),
                         .misses = static_cast<int64_t>(found.misses),
                         .compile_seconds = static_cast<double>(found.compile_microseconds) / 1e6};
  if (stats.hits + stats.misses == 0) return stats;  // the store's folder is left alone
  for (const jit::StoreEntry& entry : jit::kernel_store().list()) {
    ++stats.entries;
    stats.bytes += static_cast<int64_t>(entry.bytes);
  }
  return stats;
}

}  // namespace

EngineBackend::EngineBackend(Device device) : device_(device) { require_device(device); }

EngineBackend::~EngineBackend() { cleanup(); }

void EngineBackend::load_model(const std::string& path, const BackendOptions& options) {
  cleanup();
  check_options(options);
  options_ = options;
  resources_ = std::make_unique<ResourceManager>(device_);
  const auto tell = [&](const std::string& note) {
    if (options.note && !note.empty()) options.note(note);
  };
  const ModelFile file = ModelFile::open(resolve_model(path));
  const EngineOptions& engine = options.engine;
  tell(resources_->admit(file, {.context = engine.context,
                                .batch = engine.max_batch_tokens,
                                .cache_dtype = engine.cache_dtype.value_or(kFloat16),
                                .quantize = options.quantize}));
  auto model = make_model(file, {.device = device_,
                                 .quantize = options.quantize,
                                 .positions = engine.context,
                                 .progress = options.progress});
  ModelSummary summary = summary_of(file, *model, options.quantize);
  use_model(std::move(model), std::move(summary), options);
  const int64_t trained = this->model()->config().context_length;
  if (engine.context > trained && trained > 0)
    tell(concat("the model was trained for contexts of ", trained,
                " tokens; longer contexts were not seen in training and may give poor output"));
}

void EngineBackend::use_model(std::shared_ptr<const Model> model, ModelSummary summary,
                              const BackendOptions& options) {
  if (!resources_) resources_ = std::make_unique<ResourceManager>(device_);
  options_ = options;
  options_.engine.graphs = options.engine.graphs && options.level != "eager";
  options_.progress = nullptr;
  options_.note = nullptr;
  Speculation& speculation = options_.engine.speculation;
  if (!options.draft_model.empty()) {
    if (speculation.draft_tokens == 0) speculation.draft_tokens = kDraftTokens;
    speculation.draft_model = make_model(ModelFile::open(resolve_model(options.draft_model)),
                                         {.device = device_, .positions = options.engine.context});
  }
  const std::lock_guard lock(mutex_);
  engine_.reset();
  parts_.model = std::move(model);
  summary_ = std::move(summary);
}

void EngineBackend::load_tokenizer(const std::string& path) {
  const ModelFile file = ModelFile::open(resolve_model(path));
  TokenizerPtr tokenizer = llm::load_tokenizer(file);
  std::optional<ChatTemplate> chat;
  if (options_.chat_template.empty()) {
    chat = load_chat_template(file, *tokenizer);
  } else {
    const auto text_of = [&](std::optional<Token> token) {
      return token ? tokenizer->bytes_of(*token, {.special = true}) : std::string();
    };
    chat.emplace(options_.chat_template, text_of(tokenizer->bos()), text_of(tokenizer->eos()));
  }
  const std::lock_guard lock(mutex_);
  engine_.reset();
  parts_.tokenizer = std::move(tokenizer);
  parts_.chat = std::move(chat);
}

std::shared_ptr<const Model> EngineBackend::model() const {
  const std::lock_guard lock(mutex_);
  check(parts_.model != nullptr, label(), ": no model is loaded");
  return parts_.model;
}

std::shared_ptr<Engine> EngineBackend::engine() {
  const std::lock_guard lock(mutex_);
  check(parts_.model != nullptr, label(), ": no model is loaded");
  if (!engine_) engine_ = std::make_shared<Engine>(parts_, options_.engine);
  return engine_;
}

Generation EngineBackend::submit(Request request) { return engine()->submit(std::move(request)); }

std::vector<int32_t> EngineBackend::tokens_of(const Request& request) {
  return engine()->tokens_of(request);
}

std::unique_ptr<SequenceSession> EngineBackend::open_sequences(const SessionOptions& options) {
  SessionOptions chosen = options;
  chosen.graphs = options.graphs && options_.engine.graphs;
  if (!chosen.cache_dtype) chosen.cache_dtype = options_.engine.cache_dtype;
  return std::make_unique<SequenceRunner>(model(), chosen);
}

std::shared_ptr<const LoraAdapter> EngineBackend::load_adapter(const std::string& path) {
  return LoraAdapter::load(path, *model());
}

ModelInfo EngineBackend::model_info() const {
  const auto loaded = model();
  return {.summary = summary_,
          .config = loaded->config(),
          .positions = loaded->positions(),
          .cache_dtype = loaded->cache_dtype()};
}

int64_t EngineBackend::context() { return engine()->options().context; }

const ChatTemplate* EngineBackend::chat_template() const {
  return parts_.chat ? &*parts_.chat : nullptr;
}

EngineStats EngineBackend::stats() const {
  const std::lock_guard lock(mutex_);
  return engine_ ? engine_->stats() : EngineStats{};
}

BackendMemory EngineBackend::memory_usage() const {
  const std::lock_guard lock(mutex_);
  BackendMemory memory;
  if (parts_.model) memory.model_bytes = parts_.model->bytes();
  if (engine_) memory.cache_bytes = engine_->cache_bytes();
  if (resources_) memory.devices = resources_->metrics().memory().read();
  return memory;
}

void EngineBackend::check_options(const BackendOptions& options) const {
  const bool can_record = queue_control(device_.type) != nullptr;
  check(
      options.level.empty() || options.level == "eager" || (options.level == "graph" && can_record),
      label(), ": expected the optimization level ", can_record ? "eager or graph" : "eager",
      ", got '", options.level, "'");
  check(options.settings.empty(), label(), ": there is no setting '",
        options.settings.begin()->first, "'");
}

ExecutionReport EngineBackend::report() const {
  const bool records = options_.engine.graphs && queue_control(device_.type) != nullptr;
  return {.level = records ? "graph" : "eager", .kernels = kernel_cache_stats()};
}

void EngineBackend::cleanup() noexcept {
  const std::lock_guard lock(mutex_);
  engine_.reset();
  parts_ = {};
  options_ = {};
  summary_ = {};
  resources_.reset();  // gives the device's cached memory back
}

}  // namespace tensora::llm
