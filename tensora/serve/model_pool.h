#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tensora/serve/engine_service.h"

namespace tensora::serve {

/// The models of a service by name: loads them when they are asked for, and unloads the least
/// recently used idle one where too many are loaded. May be used from any thread.
class ModelPool {
 public:
  using Log = std::function<void(const std::string& line)>;
  ModelPool(std::vector<ModelSource> models, int64_t most, Log log);

  std::vector<ModelEntry> entries() const;
  /// See Service::model.
  ServedModelPtr get(const std::string& name);
  /// See Service::loaded_model.
  ServedModelPtr loaded(const std::string& name) const;
  /// The models that are loaded now, without their adapters.
  std::vector<ServedModelPtr> loaded() const;
  bool is_loaded() const { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  struct Slot {
    ModelSource source;
    std::vector<ServedModelPtr> models = {};  // the model, then its adapters; empty: not loaded
    bool is_loading = false;
    uint64_t used = 0;  // when, counted in requests
  };
  struct Place {
    size_t slot = 0, model = 0;
    bool is_alias = false;
  };

  const Place* find(const std::string& name) const;
  void make_room(std::unique_lock<std::mutex>& lock);
  void load_or_wait(std::unique_lock<std::mutex>& lock, Slot& slot);
  void load(std::unique_lock<std::mutex>& lock, Slot& slot);
  std::vector<ServedModelPtr> load_all(const ModelSource& source) const;

  std::vector<std::pair<std::string, Place>> names_;  // constant, in the order of the command
  size_t most_;
  Log log_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  size_t taken_ = 0;  // slots that are loaded or being loaded
  uint64_t clock_ = 0;
  std::atomic<int64_t> count_ = 0;  // of loaded models
};

}  // namespace tensora::serve
