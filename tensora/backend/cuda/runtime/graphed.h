#pragma once

// A training step as a CUDA graph. No CUDA header is needed.

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>

#include "tensora/core/tensor.h"

namespace tensora::cuda {

struct GraphedOptions {
  /// So many calls run the step as it is, before one records it; at least 1. They make what is made
  /// only once: optimizer states, plans of libraries, kernels compiled at run time.
  int64_t warmup = 3;
};

/// What `graphed` returns, for steps with several results.
class GraphedStep {
 public:
  using Step = std::function<TensorList(const TensorList&)>;
  GraphedStep(Step step, const TensorList& sample_inputs, const GraphedOptions& options = {});
  ~GraphedStep();
  GraphedStep(GraphedStep&&) noexcept;
  GraphedStep& operator=(GraphedStep&&) noexcept;

  /// One step. The results are copies, so that they can be kept and read later.
  TensorList operator()(const TensorList& inputs);

  /// Whether calls replay the graph by now, and how many kernels, copies and fills it has.
  bool is_recorded() const;
  size_t node_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same for steps with one result.
class GraphedLoss : public GraphedStep {
 public:
  using GraphedStep::GraphedStep;
  Tensor operator()(const TensorList& inputs) { return GraphedStep::operator()(inputs)[0]; }
};

/// Records a whole training step (forward, backward, optimizer) as one CUDA graph and replays it at
/// each call, so that the host spends microseconds per step:
///
///   auto step = cuda::graphed(
///       [&](const TensorList& in) {
///         optimizer.zero_grad();
///         const Tensor loss = cross_entropy(model(in[0]), in[1]);
///         loss.backward();
///         optimizer.step();
///         return loss;
///       },
///       {x, y});
///   for (const auto& [x, y] : batches) losses.push_back(step({x, y}));   // nothing waits
///
/// Every call is exactly one step, so training takes the same course as without a graph: the first
/// calls run the step as it is (`warmup`), the next one records it, which executes nothing, and
/// replays it; all later ones replay. The samples give only dtypes and shapes, which are fixed.
/// Inputs may be on the host; they are copied to the device, into memory that belongs to the step.
///
/// What cuda::Graph says holds here too. Reading a value in the step (item, nonzero) throws.
/// Numbers are recorded as they are, so an optimizer counts its steps on the device (Adam's
/// `capturable`, or a GradScaler) and a learning rate that changes is a tensor. Code of the step
/// that does not queue work, such as printing or hooks that count, runs only in the first calls.
/// Autocast scopes, GradScaler, checkpoints and dropout work as usual; dropout draws new numbers in
/// each call.
template <class Function>
  requires std::same_as<std::invoke_result_t<Function&, const TensorList&>, Tensor>
GraphedLoss graphed(Function step, const TensorList& sample_inputs,
                    const GraphedOptions& options = {}) {
  return GraphedLoss([step = std::move(step)](
                         const TensorList& inputs) mutable { return TensorList{step(inputs)}; },
                     sample_inputs, options);
}
template <class Function>
  requires std::same_as<std::invoke_result_t<Function&, const TensorList&>, TensorList>
GraphedStep graphed(Function step, const TensorList& sample_inputs,
                    const GraphedOptions& options = {}) {
  return GraphedStep(std::move(step), sample_inputs, options);
}

}  // namespace tensora::cuda
