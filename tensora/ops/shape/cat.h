#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct CatAttrs {
  int64_t dim = 0;
};
/// `cat` joins along a dim, `stack` along a new one.
extern OpDef<CatAttrs> cat_op, stack_op;

/// Joins tensors along a dim; the other sizes must agree, dtypes are promoted. 1-D tensors without
/// elements are ignored, as in PyTorch.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim = 0);
/// Joins tensors of one shape along a new dim.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
/// Joins horizontally, vertically, or in depth.
Tensor hstack(const std::vector<Tensor>& tensors);
Tensor vstack(const std::vector<Tensor>& tensors);
Tensor dstack(const std::vector<Tensor>& tensors);
/// Matrices (or vectors as rows, numbers as 1x1) along the diagonal of one matrix.
Tensor block_diag(const std::vector<Tensor>& tensors);

}  // namespace tensora
