#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensora/llm/engine.h"
#include "tensora/llm/execution_report.h"
#include "tensora/llm/memory_tracker.h"
#include "tensora/llm/metrics.h"
#include "tensora/llm/sequence_session.h"

namespace tensora::llm {

/// How a framework loads and runs a model. A framework that cannot do what an option asks for
/// throws an Error that names the option.
struct BackendOptions {
  std::string quantize = {};  // as LoadOptions::quantize
  /// Optimization level: "eager", "graph" or what the framework names; empty: its best.
  std::string level = {};
  std::map<std::string, std::string> settings = {};  // of one framework, by names that it defines
  EngineOptions engine = {};       // context, sequences, KV cache, speculative decoding
  std::string draft_model = {};    // path or name of the model that drafts; empty: none
  std::string chat_template = {};  // Jinja source instead of the model's own
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  // bytes, while loading
  /// Called with sentences that a user should read: a context beyond what the model was trained
  /// for, weights that do not fit into memory.
  std::function<void(const std::string& note)> note = nullptr;
};

struct BackendMemory {
  int64_t model_bytes = 0;
  int64_t cache_bytes = 0;                           // keys and values
  std::vector<MemoryTracker::Reading> devices = {};  // against the time before load_model
};

/// What front ends show of a loaded model.
struct ModelInfo {
  ModelSummary summary;
  ModelConfig config;
  int64_t positions = 0;         // the longest context that was loaded for
  DType cache_dtype = kFloat16;  // of keys and values, unless the options say otherwise
};

/// A framework that runs language models: the only way by which the command line, the benchmark and
/// Python reach one. Tensora's own engine is NativeBackend; others come from libraries
/// (docs/add-a-framework.md).
///
/// Order of calls: load_model, load_tokenizer (if text is used), then everything else. From then on
/// `submit`, `stats` and `memory_usage` may be called from any thread. Functions throw Error for
/// what goes wrong, and `cleanup` must work after any of them has thrown.
class FrameworkBackend {
 public:
  FrameworkBackend() = default;
  FrameworkBackend(const FrameworkBackend&) = delete;
  FrameworkBackend& operator=(const FrameworkBackend&) = delete;
  virtual ~FrameworkBackend() = default;

  /// The framework: "native".
  virtual std::string name() const = 0;
  virtual Device device() const = 0;
  /// Framework and device: "native-cpu".
  std::string label() const { return concat(name(), "-", tensora::name(device().type)); }

  /// `path` is a GGUF file, a Hugging Face folder or the name of a pulled model.
  virtual void load_model(const std::string& path, const BackendOptions& options) = 0;
  /// Needed for requests with text; requests with tokens do without.
  virtual void load_tokenizer(const std::string& path) = 0;
  /// Random weights in the shape of a registered model, instead of load_model; `type` as in
  /// LoadOptions::quantize. Throws unless the framework supports it.
  virtual void load_synthetic(const std::string& shape, const std::string& type,
                              const BackendOptions& options);

  /// Admits a request and returns at once; many may run at the same time. The Generation streams
  /// the answer and cancels the request. Throws for a mistake in the request, a prompt that does
  /// not fit, or a full queue.
  virtual Generation submit(Request request) = 0;
  /// Waits for the answer; `on_piece` gets its parts on this thread as they come. If that throws,
  /// the request is cancelled.
  virtual Completion generate(Request request,
                              const std::function<void(const Piece&)>& on_piece = nullptr);
  /// The tokens that the model would see for a request, before anything is dropped.
  virtual std::vector<int32_t> tokens_of(const Request& request);
  /// Sequences whose tokens the caller gives: what perplexity, embeddings and the benchmark run
  /// on. Throws unless the framework supports it.
  virtual std::unique_ptr<SequenceSession> open_sequences(const SessionOptions& options);
  /// A LoRA adapter for Request::adapter. Throws unless the framework supports it.
  virtual std::shared_ptr<const LoraAdapter> load_adapter(const std::string& path);

  virtual ModelInfo model_info() const = 0;
  /// Tokens that a prompt and its answer may have together.
  virtual int64_t context() = 0;
  virtual TokenizerPtr tokenizer() const = 0;             // null before load_tokenizer
  virtual const ChatTemplate* chat_template() const = 0;  // null where there is none
  virtual EngineStats stats() const = 0;
  virtual BackendMemory memory_usage() const = 0;
  /// How the loaded model is run.
  virtual ExecutionReport report() const { return {}; }
  /// Ends all requests and returns all memory. May be called at any time, and again.
  virtual void cleanup() noexcept = 0;

  /// Why BackendManager did not take the frameworks that were preferred to this one.
  const std::vector<std::string>& refusals() const { return refusals_; }
  void set_refusals(std::vector<std::string> reasons) { refusals_ = std::move(reasons); }

 private:
  std::vector<std::string> refusals_;
};

/// Runs cleanup when a scope ends, however it ends.
class CleanupScope {
 public:
  explicit CleanupScope(FrameworkBackend& backend) : backend_(backend) {}
  ~CleanupScope() { backend_.cleanup(); }
  CleanupScope(const CleanupScope&) = delete;
  CleanupScope& operator=(const CleanupScope&) = delete;

 private:
  FrameworkBackend& backend_;
};

/// Lets a backend run a tiny model whose answer is known; throws if the answer is another one.
void self_test(FrameworkBackend& backend);

}  // namespace tensora::llm
