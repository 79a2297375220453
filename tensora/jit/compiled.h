#pragma once

// Internal header

#include <memory>

#include "tensora/core/philox.h"
#include "tensora/jit/fusion.h"

namespace tensora::jit {

/// A graph with its kernels, ready to run.
class Compiled {
 public:
  explicit Compiled(Graph graph);

  /// Runs the graph on inputs with the same shapes and strides as those it was traced with.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;

  const Graph& graph() const { return graph_; }
  /// The ops and which of them run as one.
  std::string describe() const;
  /// How many kernels a run launches.
  int kernel_count() const;

 private:
  void check_memory(std::span<const Tensor> inputs) const;
  void run_node(size_t step, std::vector<Tensor>& values, PhiloxState stream) const;
  void run_kernel(size_t step, std::vector<Tensor>& values) const;
  Tensor written(const GraphNode& node, Tensor root, const Tensor& source) const;

  Graph graph_;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<FusedKernel>> kernels_;  // one per step; null for single nodes
  std::vector<std::vector<int>> last_uses_;            // values that nobody needs after a step
  bool updates_ = false;                               // an input or a captured tensor is written
};

}  // namespace tensora::jit
