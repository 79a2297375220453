#pragma once

// Internal header: indices of entries as positions in row-major order.

#include "tensora/core/tensor.h"

namespace tensora {

/// The position of each column of `indices` (D nnz) in a tensor of the first D `sizes`. In a dim of
/// size 1 every index counts as 0, as in broadcasting.
Tensor flat_indices(const Tensor& indices, const Shape& sizes);
/// The indices of such positions.
Tensor indices_of(const Tensor& positions, const Shape& sizes);

/// The first `count` sizes.
Shape leading(const Shape& sizes, int64_t count);
/// Their product.
int64_t leading_numel(const Shape& sizes, int64_t count);

/// The sums of the `values` (N …) that have each of the positions 0 to `count`; half types are
/// summed in float32.
Tensor sums_at(const Tensor& values, const Tensor& positions, int64_t count);
/// The elements, or slices of the last dims, of a dense tensor at the columns of `indices`; a dim
/// of size 1 is read at 0.
Tensor elements_at(const Tensor& dense, const Tensor& indices);

}  // namespace tensora
