#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// The channels (dim 1) in `num_groups` groups of neighbours: each sample's group minus its mean,
/// over its standard deviation, times weight, plus bias; these have one element per channel.
Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

}  // namespace tensora
