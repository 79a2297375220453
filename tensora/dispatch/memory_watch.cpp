#include "tensora/dispatch/memory_watch.h"

#include <algorithm>
#include <unordered_set>

#include "tensora/core/text.h"

namespace tensora {
namespace {

// Adds up storages, each of them once.
class Counter {
 public:
  explicit Counter(Device device) : device_(device) {}
  uint64_t bytes(const Tensor& tensor) {
    if (!tensor.defined() || tensor.device() != device_) return 0;
    const Storage* const storage = tensor.impl().storage.get();
    return counted_.insert(storage).second ? storage->bytes() : 0;
  }

 private:
  Device device_;
  std::unordered_set<const Storage*> counted_;
};

uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

std::string in_mib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%12.2f", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

MemoryWatch::MemoryWatch(Device device) : device_(device) {
  Allocator& memory = allocator(device);
  memory.reset_peaks();
  before_ = memory.stats().allocated;
}

MemoryUse MemoryWatch::report(std::span<const Tensor> parameters,
                              std::span<const Tensor> optimizer_state) const {
  const MemoryStats stats = allocator(device_).stats();
  MemoryUse use{.device = device_, .peak = stats.peak_allocated, .limit = stats.limit};
  Counter counter(device_);
  for (const Tensor& parameter : parameters) use.parameters += counter.bytes(parameter);
  for (const Tensor& parameter : parameters)
    if (parameter.defined()) use.gradients += counter.bytes(parameter.grad());
  for (const Tensor& state : optimizer_state) use.optimizer_state += counter.bytes(state);
  // The first step makes gradients and states: they were not there before.
  const uint64_t known = use.parameters + use.gradients + use.optimizer_state;
  use.other = std::min(less(before_, known), less(use.peak, known));
  use.activations = less(use.peak, known + use.other);
  use.cached = less(stats.peak_reserved, use.peak);
  return use;
}

std::string MemoryUse::table() const {
  const auto line = [&](const char* name, uint64_t bytes) {
    char text[80];
    const double share =
        peak > 0 ? 100 * static_cast<double>(bytes) / static_cast<double>(peak) : 0;
    std::snprintf(text, sizeof text, "%-26s %s %6.1f%%\n", name, in_mib(bytes).c_str(), share);
    return std::string(text);
  };
  std::string text = concat("peak memory on ", device, ", MiB\n");
  text += line("parameters", parameters) + line("gradients", gradients) +
          line("optimizer state", optimizer_state) + line("other, from before", other) +
          line("activations, workspaces", activations) + line("sum", peak) +
          line("cached beyond it", cached);
  if (limit > 0) text += line("limit", limit);
  return text;
}

}  // namespace tensora
