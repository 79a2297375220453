#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The slices of one dim at the positions in a 1-D `index`, in that order.
Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index);

/// `self` with `alpha * source` added to the slices of `dim` at `index`; a slice named twice gets
/// both.
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha = 1);
const Tensor& index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                         Scalar alpha = 1);
/// `self` with the slices of `dim` at `index` replaced by those of `source`.
Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source);
const Tensor& index_copy_(const Tensor& self, int64_t dim, const Tensor& index,
                          const Tensor& source);
/// `self` with all elements of those slices set to one value; here `index` may count from the end.
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, Scalar value);
const Tensor& index_fill_(const Tensor& self, int64_t dim, const Tensor& index, Scalar value);
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value);
const Tensor& index_fill_(const Tensor& self, int64_t dim, const Tensor& index,
                          const Tensor& value);

}  // namespace tensora
