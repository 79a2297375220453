#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct AsStridedAttrs {
  Shape sizes;
  Strides strides;
  int64_t offset = 0;
  // The input's own geometry, which the gradient needs; set by as_strided(). Where the input's
  // offset is given, the view starts `offset - *input_offset` elements behind whatever is the
  // input.
  Strides input_strides = {};
  std::optional<int64_t> input_offset = {};
};
extern OpDef<AsStridedAttrs> as_strided_op;

/// The geometry of an as_strided call and of the tensor it was taken from.
struct AsStridedBackwardAttrs {
  Shape input_sizes;
  Strides input_strides;
  Shape sizes;
  Strides strides;
  int64_t offset = 0;  // of the view, from the input's first element
};
extern OpDef<AsStridedBackwardAttrs> as_strided_backward_op;

/// A view of the storage of `self` with any geometry; `storage_offset` defaults to that of `self`.
Tensor as_strided(const Tensor& self, const Shape& size, const Strides& stride,
                  std::optional<int64_t> storage_offset = {});

}  // namespace tensora
