#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tensora/llm/memory_tracker.h"
#include "tensora/llm/request.h"

namespace tensora::llm {

struct BackendOptions {
  std::string quantize = {};  // as LoadOptions::quantize
  int64_t context = 0;        // 0: the model's, as far as memory allows
  int64_t max_sequences = 1;
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

struct BackendMemory {
  int64_t model_bytes = 0;
  int64_t cache_bytes = 0;                           // keys and values
  std::vector<MemoryTracker::Reading> devices = {};  // against the time before load_model
};

/// A framework that runs language models. All front ends and the benchmark know only this; one can
/// be added from outside (docs/add-a-framework.md). Functions throw Error for what goes wrong, and
/// `cleanup` must work after any of them has thrown.
class FrameworkBackend {
 public:
  virtual ~FrameworkBackend() = default;

  /// "native-cpu"
  virtual std::string name() const = 0;
  virtual bool uses_gpu() const = 0;

  /// `path` is a GGUF file or a Hugging Face folder.
  virtual void load_model(const std::string& path, const BackendOptions& options) = 0;
  /// Needed for requests with text; those with tokens do without.
  virtual void load_tokenizer(const std::string& path) = 0;
  /// The answer, and its parts on this thread as they come.
  virtual Completion generate(const Request& request,
                              const std::function<void(const Piece&)>& on_piece) = 0;
  virtual BackendMemory memory_usage() const = 0;
  /// Returns all memory. May be called at any time, and again.
  virtual void cleanup() noexcept = 0;
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
