#pragma once

// Internal header: gradients of which each rank has a part.

#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/core/tensor.h"

namespace tensora::distributed {

/// The norm of the elements that all ranks have in `parts` together.
Tensor norm_over_ranks(const std::vector<Tensor>& parts, double norm_type, Device device,
                       DType dtype, ProcessGroup& group);
/// Scales the gradients by max_norm / total where the total norm is larger than max_norm.
void clip_by_total(const std::vector<Tensor>& grads, const Tensor& total, double max_norm);
/// If a gradient of one rank has an infinite element or NaN, the first of each rank gets a NaN.
void spread_overflow(const std::vector<Tensor>& grads, Device device, ProcessGroup& group);

}  // namespace tensora::distributed
