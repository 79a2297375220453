#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ViewAttrs {
  Shape size;
};
extern OpDef<ViewAttrs> view_op;

/// The same elements in row-major order under another shape; one size may be -1. Throws if the
/// strides of `self` do not allow it without a copy.
Tensor view(const Tensor& self, const Shape& size);
Tensor view_as(const Tensor& self, const Tensor& other);
/// A view where the strides allow it, else a copy.
Tensor reshape(const Tensor& self, const Shape& shape);
Tensor reshape_as(const Tensor& self, const Tensor& other);

/// Joins the dims from `start_dim` to `end_dim`, both included, into one.
Tensor flatten(const Tensor& self, int64_t start_dim = 0, int64_t end_dim = -1);
Tensor ravel(const Tensor& self);
/// Splits one dim into several; one of `sizes` may be -1.
Tensor unflatten(const Tensor& self, int64_t dim, const Shape& sizes);

/// Drops dims of size 1: all of them, or those named that have size 1.
Tensor squeeze(const Tensor& self);
Tensor squeeze(const Tensor& self, const Dims& dim);
/// Inserts a dim of size 1 before `dim`.
Tensor unsqueeze(const Tensor& self, int64_t dim);

/// At least that many dims, as in PyTorch: [n] becomes [1, n] and [1, n, 1].
Tensor atleast_1d(const Tensor& self);
Tensor atleast_2d(const Tensor& self);
Tensor atleast_3d(const Tensor& self);

}  // namespace tensora
