#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The dim along which an index tensor, of as many dims as the data, names positions.
struct GatherAttrs {
  int64_t dim = 0;
};
/// gather: (self, index). scatter, scatter_add: (self, index, src).
extern OpDef<GatherAttrs> gather_op, scatter_op, scatter_add_op;

/// Zeros of shape `sizes`, with the input summed at the locations it was gathered from.
struct GatherBackwardAttrs {
  Shape sizes;
  int64_t dim = 0;
};
extern OpDef<GatherBackwardAttrs> gather_backward_op;

/// result[i][j] = self[index[i][j]][j] for dim 0, and likewise for other dims; the result has the
/// shape of `index`, which may be smaller than `self` in the other dims.
Tensor gather(const Tensor& self, int64_t dim, const Tensor& index);
/// `self` with src[i][j] written to [index[i][j]][j], for all elements of `index`. If several
/// values go to one location, the last one stays; on CUDA any of them, unless is_deterministic().
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, Scalar value);
const Tensor& scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src);
const Tensor& scatter_(const Tensor& self, int64_t dim, const Tensor& index, Scalar value);
/// The same, adding.
Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src);
const Tensor& scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src);

/// gather with `indices` and `self` broadcast against each other in the other dims; without a dim,
/// on the flattened tensors.
Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim = {});
/// The elements at positions of the flattened tensor, which may count from the end.
Tensor take(const Tensor& self, const Tensor& index);

}  // namespace tensora
