#pragma once

#include <memory>

#include "tensora/jit/graph.h"

namespace tensora::jit {

class Compiled;

/// What a fused function did with its compiled versions.
struct CacheStatistics {
  uint64_t hits = 0, misses = 0, evictions = 0;
  size_t versions = 0;  // kept now
  size_t limit = 0;     // of them; the least recently used one is dropped first
};

/// A function of tensors that runs as few kernels as its ops allow. A handle; copies share what was
/// compiled. Thread-safe.
///
/// A call does what the function itself would do: it writes to the inputs and captured tensors that
/// the function writes to, draws new random numbers, and reads captured tensors as they are at the
/// time of the call. A trace fixes the path through the function's branches, its C++ numbers, and
/// which tensors it captured. There is one version for each combination of the inputs' dtypes,
/// sizes, strides, devices and aliasing with the thread's autocast, default dtype and determinism.
///
/// Where ops are intercepted, as in the trace of another function, the function itself is called.
class Fused {
 public:
  static constexpr size_t kDefaultVersions = 64;

  explicit Fused(Function function, size_t max_versions = kDefaultVersions);

  /// Runs the function. A new combination is traced and compiled first. Inputs or captured
  /// tensors that require gradients throw while gradients are recorded.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;

  template <class... Tensors>
  Tensor operator()(const Tensors&... inputs) const {
    const Tensor list[] = {inputs...};
    return run(list).at(0);
  }
  /// The traced ops and what became of them, for inputs like these.
  std::string describe(std::span<const Tensor> inputs) const;
  /// How many kernels a call with inputs like these launches.
  int kernel_count(std::span<const Tensor> inputs) const;
  CacheStatistics statistics() const;

 private:
  struct State;
  std::shared_ptr<const Compiled> compiled(std::span<const Tensor> inputs) const;

  std::shared_ptr<State> state_;
};

/// Traces `function` on the example inputs and compiles it.
Fused fuse(std::function<Tensor(std::span<const Tensor>)> function,
           std::span<const Tensor> example_inputs);

}  // namespace tensora::jit
