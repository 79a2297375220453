#pragma once

#include "tensora/sparse/sparse_tensor.h"

namespace tensora::sparse {

/// Whether a tensor, such as the gradient of an embedding's weight, stores entries in place of all
/// elements. Ops refuse such a tensor.
bool is_sparse(const Tensor& tensor);
/// Its entries, which are shared; throws if it is dense.
SparseTensor from_tensor(const Tensor& tensor);
/// A tensor of these entries, for `set_grad` and for what a Function's backward returns. COO only.
Tensor as_tensor(const SparseTensor& sparse);
/// The dense form; a dense tensor itself.
Tensor to_dense(const Tensor& tensor);

}  // namespace tensora::sparse
