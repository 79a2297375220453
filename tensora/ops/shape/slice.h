#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Elements `start`, `start + step`, … below `end` of one dim.
struct SliceAttrs {
  int64_t dim = 0;
  int64_t start = 0;
  int64_t end = 0;
  int64_t step = 1;
};
extern OpDef<SliceAttrs> slice_op;

struct SelectAttrs {
  int64_t dim = 0;
  int64_t index = 0;
};
extern OpDef<SelectAttrs> select_op;

/// Zeros of shape `sizes` with the input in the position of a slice.
struct SliceBackwardAttrs {
  Shape sizes;
  int64_t dim = 0;
  int64_t start = 0;
  int64_t step = 1;
};
extern OpDef<SliceBackwardAttrs> slice_backward_op;

/// `length` elements of one dim from `start`, which may count from the end.
Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length);
/// The part at one index of a dim, which may count from the end; that dim disappears.
Tensor select(const Tensor& self, int64_t dim, int64_t index);
/// Python's slice of one dim: bounds may count from the end and are clamped to the size.
Tensor slice(const Tensor& self, int64_t dim = 0, std::optional<int64_t> start = {},
             std::optional<int64_t> end = {}, int64_t step = 1);

}  // namespace tensora
