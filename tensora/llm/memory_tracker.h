#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensora/core/device.h"

namespace tensora::llm {

/// Bytes of a device's memory. On the CPU `used` is what this process has in physical memory, on
/// others what its tensors have reserved.
struct MemoryUsage {
  uint64_t used = 0;
  uint64_t free = 0;   // for this process: a container's limit counts
  uint64_t total = 0;  // 0: unknown
};
MemoryUsage memory_usage(Device device = {});

/// The most physical memory that this process has had.
uint64_t peak_host_memory();

/// How much memory something took: the difference to a baseline, on the CPU and on another device.
class MemoryTracker {
 public:
  /// Takes the baseline.
  explicit MemoryTracker(Device device = {});

  void reset();
  /// Reads the counters, for the peaks.
  void sample();

  struct Reading {
    Device device;
    uint64_t baseline = 0, used = 0, peak = 0, total = 0;
    int64_t delta() const { return static_cast<int64_t>(used) - static_cast<int64_t>(baseline); }
    int64_t peak_delta() const {
      return static_cast<int64_t>(peak) - static_cast<int64_t>(baseline);
    }
  };
  /// The CPU's, then the other device's. Samples first.
  std::vector<Reading> read();
  /// A table for people to read.
  std::string table();

 private:
  std::vector<Reading> readings_;
};

}  // namespace tensora::llm
