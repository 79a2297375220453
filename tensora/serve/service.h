#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/serve/answer.h"

namespace tensora::serve {

class Embedder;

/// A model that is loaded, under the name that clients use.
struct ServedModel {
  std::string name;
  std::string path;     // where it came from; not for clients
  int64_t created = 0;  // seconds since 1970, when it was loaded
  std::shared_ptr<llm::FrameworkBackend> backend;
  std::shared_ptr<Embedder> embedder;
  llm::ModelInfo info;
  int64_t context = 0;  // tokens that a prompt and its answer may have together
  int64_t slots = 8;    // answers computed together
  std::shared_ptr<const llm::LoraAdapter> adapter = nullptr;  // under a name of its own
  double adapter_scale = 1;
};
using ServedModelPtr = std::shared_ptr<const ServedModel>;

/// A name that requests may give.
struct ModelEntry {
  std::string name;
  bool is_loaded = false;
  bool is_alias = false;
  int64_t created = 0;    // when it was loaded; 0: it is not
  std::string root = {};  // of an alias or an adapter: the model that it stands for
  int64_t context = 0;    // in tokens; 0: it is not loaded
  double adapter_scale = 1;
};

/// What the service is doing.
struct ServiceLoad {
  int64_t answers = 0;  // open, queued ones included
  int64_t queued = 0;   // of these, wait for a place in their engine
  int64_t streams = 0;  // open requests that want parts
  int64_t paused = 0;   // streams whose client reads too slowly
  uint64_t unsent_bytes = 0;
  bool is_ready = false;  // a model is loaded, and new requests are taken
  bool is_draining = false;
};

/// The engines behind the server: models by name, answers, embeddings. All functions may be called
/// from any thread; those that may wait for a model to load say so.
class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  virtual std::vector<ModelEntry> models() const = 0;
  /// The model of a name; empty: the only or first one. Loads it where that is needed, which may
  /// take long. Throws ApiError 404, model_not_found.
  virtual ServedModelPtr model(const std::string& name) = 0;
  /// The same for somebody who only looks: null where it is not loaded, and no use that would keep
  /// it loaded longer than others.
  virtual ServedModelPtr loaded_model(const std::string& name) const = 0;

  /// Checks the request and hands it to the engine; the sink gets what comes of it, later, on the
  /// thread that delivers. Throws ApiError for a mistake, a full queue or a limit (429). May wait
  /// for a model to load.
  virtual void answer(AnswerRequest request, std::shared_ptr<AnswerSink> sink) = 0;

  /// What requests sample with where they do not say.
  virtual const llm::SamplingOptions& sampling() const = 0;
  /// Answered from atomics, within microseconds.
  virtual ServiceLoad load() const = 0;
  /// Refuses new answers from now on (503); those that are open go on.
  virtual void drain() = 0;
  /// Ends all open answers with an error, and `embed` and `judge` before their next text.
  virtual void end_all(const ApiError& error) = 0;
  /// All figures, as Prometheus reads them.
  virtual std::string metrics() = 0;

  /// A vector for each list of tokens, from the model's last layer. Throws ApiError, also where
  /// the client goes before all have been computed.
  virtual std::vector<std::vector<float>> embed(const ServedModel& model,
                                                const std::vector<std::vector<int32_t>>& texts,
                                                const Reply& client) = 0;
  /// See Embedder::judge; throws as `embed`.
  virtual std::vector<double> judge(const ServedModel& model,
                                    const std::vector<std::vector<int32_t>>& prompts, int32_t yes,
                                    int32_t no, const Reply& client) = 0;
};

}  // namespace tensora::serve
