#pragma once

#include <functional>

#include "tensora/distributed/sharded_tensor.h"

namespace tensora::distributed {

using ShardedTensors = std::vector<ShardedTensor>;

struct ShardedCallOptions {
  /// Ops without a rule for dividing them throw instead of gathering their inputs.
  bool strict = false;
  /// Called with the name of an op that gathers its inputs, for lack of a rule; by default a line
  /// on standard error tells of each such op once.
  std::function<void(std::string_view op)> on_gather = {};
};

/// Calls a function that was written for one process, with tensors that stand for the whole of
/// `inputs`, which are on one mesh. Each op in it runs on this rank's parts; how, its rule says
/// (Note [Factors] in shard_rule.h), with what is communicated the least:
///
///   ShardedTensors y = call_sharded(
///       [&](std::span<const Tensor> x) { return TensorList{relu(matmul(x[0], x[1]))}; },
///       {x, w});
///
/// Results have the placements that came out. Gradients flow to the inputs' parts, and to other
/// tensors that the function uses, which must be the same on all ranks; backward is called
/// outside. An op without a rule runs its definition in other ops, or gathers its inputs, with a
/// warning. Sharded tensors may be written to in place if they are no inputs and have no views.
/// Reading a value, as item() does, gathers the tensor. All ranks make the same calls.
ShardedTensors call_sharded(const std::function<TensorList(std::span<const Tensor>)>& function,
                            const ShardedTensors& inputs, const ShardedCallOptions& options = {});

}  // namespace tensora::distributed
