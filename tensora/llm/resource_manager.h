#pragma once

#include <string>

#include "tensora/llm/memory_plan.h"
#include "tensora/llm/metrics.h"

namespace tensora::llm {

/// What a program takes of a machine in order to run a model: whether there is room for it, the
/// memory on the host and on the device against the time before it was loaded, and what its answers
/// took. Make it before the model is loaded and let it outlive the model: when it ends, the memory
/// that is kept for later tensors goes back to the system.
class ResourceManager {
 public:
  /// Takes the baseline of memory.
  explicit ResourceManager(Device device = {});
  ~ResourceManager();
  ResourceManager(const ResourceManager&) = delete;
  ResourceManager& operator=(const ResourceManager&) = delete;

  Device device() const { return device_; }

  /// Throws, with the whole plan and what would make it fit, where a model does not. Weights that
  /// stay as the file has them are read from the mapped file on the CPU and need not fit; then the
  /// result is what the user should be told, otherwise empty. Without a context, the engine takes
  /// the largest that fits, and the plan asks for little. The device is this one.
  std::string admit(const ModelFile& file, MemoryPlanOptions options) const;

  PerformanceMetrics& metrics() { return metrics_; }

 private:
  Device device_;
  PerformanceMetrics metrics_;
};

}  // namespace tensora::llm
