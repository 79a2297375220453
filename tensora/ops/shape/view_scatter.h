#pragma once

#include "tensora/dispatch/op_def.h"

// Copies of a tensor in which a part, named as by the view op, has other contents. Strides are
// those of `self` if it is dense. Gradients flow to `src`, and to the rest of `self`.

namespace tensora {

/// `src` has the shape of the part and is cast to the dtype of `self`.
Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, int64_t index);
Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim = 0,
                     std::optional<int64_t> start = {}, std::optional<int64_t> end = {},
                     int64_t step = 1);
Tensor diagonal_scatter(const Tensor& self, const Tensor& src, int64_t offset = 0, int64_t dim1 = 0,
                        int64_t dim2 = 1);
Tensor as_strided_scatter(const Tensor& self, const Tensor& src, const Shape& size,
                          const Strides& stride, std::optional<int64_t> storage_offset = {});

/// Sets the main diagonal of a matrix, or of a tensor of equal sizes, to `fill_value`; in a tall
/// matrix, with `wrap`, it begins anew below the last column.
const Tensor& fill_diagonal_(const Tensor& self, Scalar fill_value, bool wrap = false);

}  // namespace tensora
