#pragma once

// Internal header: whether the ranks train the same model.

#include "tensora/core/process_group.h"
#include "tensora/nn/module.h"

namespace tensora::distributed {

/// Compares names, shapes, dtypes, strides and requires_grad of all parameters; throws on every
/// rank, and names the first parameter that differs.
void check_same_parameters(const nn::Module& model, ProcessGroup& group);
/// Gives all ranks the parameters and buffers of rank 0.
void broadcast_from_first(const nn::Module& model, ProcessGroup& group);

}  // namespace tensora::distributed
