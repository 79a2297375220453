#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ViewDtypeAttrs {
  DType dtype = DType::float32;
};
/// Called through view_dtype(), which keeps the result out of the graph.
extern OpDef<ViewDtypeAttrs> view_dtype_op;

/// The same bytes as elements of another dtype; PyTorch's `x.view(dtype)`. Where the elements
/// differ in size, the last dim, which must have stride 1, gets longer or shorter. Has no gradient.
Tensor view_dtype(const Tensor& self, DType dtype);

}  // namespace tensora
