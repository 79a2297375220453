#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct PermuteAttrs {
  Dims dims;
};
extern OpDef<PermuteAttrs> permute_op;

/// Dim i of the result is dim `dims[i]` of `self`.
Tensor permute(const Tensor& self, const Dims& dims);
/// Exchanges two dims.
Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1);
Tensor swapaxes(const Tensor& self, int64_t axis0, int64_t axis1);
Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1);
/// Exchanges the dims of a matrix; tensors of fewer dims stay as they are.
Tensor t(const Tensor& self);
/// Exchanges the last two dims.
Tensor mT(const Tensor& self);
/// Moves dims to new positions; the others keep their order.
Tensor movedim(const Tensor& self, const Dims& source, const Dims& destination);

}  // namespace tensora
