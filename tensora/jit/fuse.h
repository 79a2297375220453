#pragma once

#include <map>
#include <mutex>

#include "tensora/jit/fusion.h"

namespace tensora::jit {

/// A function of tensors that runs as few kernels as its ops allow. A handle; copies share what was
/// compiled. Thread-safe.
class Fused {
 public:
  explicit Fused(Function function);

  /// Runs the function. Inputs of new shapes, dtypes or devices are traced and compiled first.
  /// Inputs that require gradients throw while gradients are recorded.
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

 private:
  struct Compiled;
  struct State;
  std::shared_ptr<Compiled> compiled(std::span<const Tensor> inputs) const;

  std::shared_ptr<State> state_;
};

/// Traces `function` on the example inputs and compiles it. Shapes and branches are fixed by the
/// trace; numbers and tensors that the function captured are constants.
Fused fuse(std::function<Tensor(std::span<const Tensor>)> function,
           std::span<const Tensor> example_inputs);

}  // namespace tensora::jit
