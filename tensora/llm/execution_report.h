#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensora::llm {

/// Steps that were recorded once and are replayed, such as CUDA graphs.
struct GraphStats {
  int64_t recorded = 0;       // graphs
  int64_t replays = 0;        // steps that a graph computed
  int64_t eager_steps = 0;    // steps without a graph
  double record_seconds = 0;  // spent on recording

  GraphStats& operator+=(const GraphStats& other) {
    recorded += other.recorded;
    replays += other.replays;
    eager_steps += other.eager_steps;
    record_seconds += other.record_seconds;
    return *this;
  }
};

/// Kernels that were compiled at run time, and the cache that keeps them.
struct KernelCacheStats {
  int64_t entries = 0, bytes = 0;
  int64_t hits = 0, misses = 0;
  double compile_seconds = 0;

  /// Of all lookups; 0 if there were none.
  double hit_rate() const {
    return hits + misses > 0 ? static_cast<double>(hits) / static_cast<double>(hits + misses) : 0;
  }
};

/// How a framework runs the model that it has loaded: what decides whether a comparison with
/// another framework is fair.
struct ExecutionReport {
  std::string version = {};             // of the framework: "2.15.0+cu132"
  std::string level = {};               // "eager", "graph", "aoti:FILE"
  std::string precision = {};           // of the weights in products; empty: the model's own
  bool dequantized = false;             // quantized weights were converted while loading
  std::vector<std::string> notes = {};  // kernels that were replaced, types that were dequantized
  GraphStats graphs = {};
  KernelCacheStats kernels = {};
  int64_t workspace_bytes = 0;  // activations and scratch memory
  int64_t framework_bytes = 0;  // its own reserve, beside Tensora's allocators
};

}  // namespace tensora::llm
