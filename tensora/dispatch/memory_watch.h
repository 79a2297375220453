#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tensora/core/tensor.h"

namespace tensora {

/// Where the memory of a device was, in bytes, when most of it was in use.
struct MemoryUse {
  Device device;
  uint64_t parameters = 0;
  uint64_t gradients = 0;  // of the parameters, as they are at the end
  uint64_t optimizer_state = 0;
  uint64_t other = 0;        // that was there before: inputs, buffers, other models
  uint64_t activations = 0;  // what the scope itself had at its peak: activations, workspaces
  uint64_t peak = 0;         // the sum of these
  uint64_t cached = 0;       // reserved beyond that, for later tensors
  uint64_t limit = 0;        // 0: none

  /// A table for people to read.
  std::string table() const;
};

/// Watches the memory of a device in a scope, usually one training step:
///
///   const MemoryWatch watch("cuda");
///   train_step();
///   std::puts(watch.report(model.parameters(), states).table().c_str());
///
/// Reads the allocator's counters, so it costs nothing and does not wait; a watch within a watch
/// takes the outer one's peak. Blocks of up to 1 KiB on the CPU are not in the peaks.
class MemoryWatch {
 public:
  explicit MemoryWatch(Device device = {});

  /// What was used so far. The tensors given are told apart from the rest; those on other devices
  /// do not count, and memory that several share counts once.
  MemoryUse report(std::span<const Tensor> parameters = {},
                   std::span<const Tensor> optimizer_state = {}) const;

 private:
  Device device_;
  uint64_t before_;  // allocated
};

}  // namespace tensora
