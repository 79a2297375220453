#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/serve/answer.h"

namespace tensora::serve {

/// A model that is loaded, under the name that clients use.
struct ServedModel {
  std::string name;
  std::string path;     // where it came from; not for clients
  int64_t created = 0;  // seconds since 1970, when it was loaded
  std::shared_ptr<llm::FrameworkBackend> backend;
  llm::ModelInfo info;
  std::shared_ptr<const llm::LoraAdapter> adapter = nullptr;  // under a name of its own
};
using ServedModelPtr = std::shared_ptr<const ServedModel>;

/// A name that requests may give.
struct ModelEntry {
  std::string name;
  bool is_loaded = false;
  bool is_alias = false;
  int64_t created = 0;
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

  /// Checks the request and hands it to the engine; the sink gets what comes of it, later, on the
  /// thread that delivers. Throws ApiError for a mistake, a full queue or a limit (429). May wait
  /// for a model to load.
  virtual void answer(AnswerRequest request, std::shared_ptr<AnswerSink> sink) = 0;

  /// A vector for each list of tokens, from the model's last layer. Throws ApiError.
  virtual std::vector<std::vector<float>> embed(const ServedModel& model,
                                                const std::vector<std::vector<int32_t>>& texts) = 0;
};

}  // namespace tensora::serve
