#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensora/dispatch/op.h"

namespace tensora::jit {

/// A copy of an op's attributes.
class AttrsCopy {
 public:
  AttrsCopy(const OpBase& op, const void* attrs);
  const void* get() const { return attrs_.get(); }

 private:
  std::shared_ptr<void> attrs_;
};

/// A tensor that occurs in a graph: an input, a constant that the function captured, or the result
/// of a node.
struct Value {
  Shape sizes;
  DType dtype = DType::float32;
  Device device;
  Tensor constant;  // defined for constants only
};

/// One op; the numbers are positions in Graph::values.
struct GraphNode {
  const OpBase* op;
  AttrsCopy attrs;
  std::vector<int> inputs;  // -1: an optional input that is not there
  std::vector<int> outputs;
  DType compute_dtype = DType::float32;  // pointwise ops: in which the inputs meet
};

/// A function of tensors as a list of ops, in the order in which they ran.
struct Graph {
  std::vector<Value> values;
  std::vector<GraphNode> nodes;
  std::vector<int> inputs;
  std::vector<int> outputs;
};

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

/// Runs `function` on the inputs and records every op. Shapes, dtypes and the path through the
/// function's own branches are those of this run. In-place ops throw.
Graph trace(const Function& function, std::span<const Tensor> inputs);

/// One line per node: "%3 = add(%0, %2, alpha=1) : float32 [4, 5]".
std::string to_string(const Graph& graph);

}  // namespace tensora::jit
