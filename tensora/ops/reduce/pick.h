#pragma once

// Internal header: the gradient of reductions that choose one element.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct PickAttrs {
  Shape sizes;  // of the tensor that is picked from
  int64_t dim = 0;
  bool keepdim = false;  // whether the picked tensor still has `dim`, with size 1
};
constexpr auto describe(std::type_identity<PickAttrs>) {
  return fields(field("sizes", &PickAttrs::sizes), field("dim", &PickAttrs::dim),
                field("keepdim", &PickAttrs::keepdim));
}
extern OpDef<PickAttrs> pick_op, put_picked_op;

/// One element of each line of `x` along attrs.dim: that at the position in `indices`.
Tensor pick(const Tensor& x, const Tensor& indices, const PickAttrs& attrs);
/// Zeros of shape attrs.sizes with `values` at those positions.
Tensor put_picked(const Tensor& values, const Tensor& indices, const PickAttrs& attrs);

}  // namespace tensora
