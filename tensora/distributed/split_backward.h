#pragma once

// Internal header: a backward in two parts, for the schedule zero-bubble.

#include <vector>

#include "tensora/autograd/node.h"

namespace tensora::distributed {

// Note [Backward in two parts]
// The gradient of a stage's input is what the stage before waits for; those of the weights can come
// later. The first part runs backward for the input alone, in which ops leave out the products for
// their weights, and hooks keep the gradients that arrive at every node which leads to a weight.
// The second part starts from these, node by node in the order of a whole backward, and computes
// what was left out: no product is computed twice, except where a weight is used by several nodes.
class SplitBackward {
 public:
  /// The gradient of `input`, a leaf, if `output` has this one. The graph stays for the second
  /// part.
  Tensor input_gradient(const Tensor& output, const Tensor& input, const Tensor& gradient);
  /// Accumulates the gradients of all other leaves.
  void accumulate_weights();

 private:
  struct Step {
    NodePtr node;
    std::vector<Edge> leaves;  // to which it leads and `input` does not
    std::vector<Edge> stops;   // where its other gradients end
    Tensors gradients;         // of its outputs
  };
  std::vector<Step> steps_;
};

}  // namespace tensora::distributed
