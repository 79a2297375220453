#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensora/llm/embed.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

struct AdapterSource {
  std::string name;  // as clients name the model with it
  std::string path;
  double scale = 1;
};

/// A model that can be served.
struct ModelSource {
  std::string name;  // as clients name it
  std::string path = {};
  std::vector<std::string> aliases = {};
  std::vector<AdapterSource> adapters = {};
  /// Makes a backend that has loaded the model and its tokenizer. May be called again after the
  /// model was unloaded. Throws Error.
  std::function<std::shared_ptr<llm::FrameworkBackend>()> load = nullptr;
  int64_t slots = 8;  // answers computed together: the engine's max_sequences
  /// How the model's embeddings are pooled; called after `load`. Null: the mean.
  std::function<llm::Pooling()> pooling = nullptr;
};

struct ServiceOptions {
  std::vector<ModelSource> models = {};
  int64_t models_max = 0;     // loaded at once; 0: all. The least recently used idle one goes first
  int64_t max_queued = 1024;  // answers that wait for a place; more are refused with 429
  int64_t max_queued_per_key = 256;    // the same for each key
  int64_t max_answers = 128;           // of one request: n times its prompts
  double deadline = 0;                 // seconds that an answer may take, queueing included; 0: any
  llm::SamplingOptions sampling = {};  // where a request does not say
  /// A client with more unsent bytes than this pauses its answers; they go on below half of it.
  size_t most_unsent = 256 * 1024;
  /// Memory of the host that is only kept for later goes back to the system when there has been no
  /// answer for so many seconds.
  double idle_seconds = 5;
  /// Lines about loading, unloading and internal errors.
  std::function<void(const std::string& line)> log = nullptr;
};

/// Runs the models. Nothing is loaded until `Service::model` asks for it.
std::unique_ptr<Service> make_service(ServiceOptions options);

}  // namespace tensora::serve
