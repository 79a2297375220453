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

}  // namespace tensora
