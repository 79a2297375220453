#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct FlipAttrs {
  Dims dims;
};
extern OpDef<FlipAttrs> flip_op;

/// A copy with the order of the elements along `dims` reversed; no dims, no change.
Tensor flip(const Tensor& self, const Dims& dims);
/// Reverses the columns, or the rows.
Tensor fliplr(const Tensor& self);
Tensor flipud(const Tensor& self);
/// Moves elements `shifts` places along `dims`, around the end; without dims, in row-major order.
Tensor roll(const Tensor& self, const Shape& shifts, const Dims& dims = {});
/// Turns the plane of two dims `k` times by 90 degrees, from the first towards the second.
Tensor rot90(const Tensor& self, int64_t k = 1, const Dims& dims = {0, 1});

}  // namespace tensora
