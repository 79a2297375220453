#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// Sums, averages or takes the maximum of rows of `weight`, bag by bag, without a copy of the rows.
/// A vector `input` of indices is divided by `offsets`, the position where each bag begins; with
/// `include_last_offset` the last of them is where the last bag ends, and indices after it do not
/// count. Each row of a matrix `input` is a bag, and there are no offsets. `per_sample_weights`, of
/// the input's shape, are factors for the mode "sum". `padding_idx` does not count. The other
/// arguments are those of `embedding`.
Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Tensor& offsets = {},
                     std::optional<double> max_norm = {}, double norm_type = 2,
                     bool scale_grad_by_freq = false, std::string_view mode = "mean",
                     bool sparse = false, const Tensor& per_sample_weights = {},
                     bool include_last_offset = false, std::optional<int64_t> padding_idx = {});

}  // namespace tensora
