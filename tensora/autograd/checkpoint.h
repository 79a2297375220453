#pragma once

#include <functional>

#include "tensora/core/tensor.h"

namespace tensora {

struct CheckpointOptions {
  /// Draws in the second run the random numbers that the first one drew.
  bool preserve_random_state = true;
};

/// Runs `body` without keeping what its backward needs; backward runs it a second time instead:
/// memory for time. Gradients flow to `inputs` and to every tensor that `body` captured. `body`
/// must compute the same thing both times. Checkpoints may be nested, and differentiated again.
TensorList checkpoint(const std::function<TensorList(const TensorList&)>& body,
                      const TensorList& inputs, CheckpointOptions options = {});
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& body, const Tensor& input,
                  CheckpointOptions options = {});

/// Runs the functions one after the other, cut into `segments` of equal length (the last one takes
/// what is left over). Each is a checkpoint, but for the last, whose results backward needs at
/// once. As PyTorch's.
Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions,
                             int64_t segments, const Tensor& input, CheckpointOptions options = {});

}  // namespace tensora
