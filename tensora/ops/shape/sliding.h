#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Windows of `size` elements, `step` apart, along one dim.
struct SlidingAttrs {
  int64_t dimension = 0;
  int64_t size = 1;
  int64_t step = 1;
};
extern OpDef<SlidingAttrs> sliding_op;

/// Adds the windows up where they came from, in a tensor of shape `sizes`.
struct SlidingBackwardAttrs {
  Shape sizes;
  int64_t dimension = 0;
  int64_t size = 1;
  int64_t step = 1;
};
extern OpDef<SlidingBackwardAttrs> sliding_backward_op;

/// A view of all windows of `size` elements, `step` apart, along `dimension`; the elements of a
/// window become a new last dim.
Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step);

}  // namespace tensora
