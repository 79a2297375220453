#pragma once

// Internal header: gradients of which only some rows are stored, such as those of `embedding` with
// `sparse`. tensora/sparse/gradient.h has what programs use.

#include "tensora/autograd/history.h"

namespace tensora {

// Note [Sparse gradients]
// A sparse gradient is a tensor with a shape, a dtype and a device, but without memory; its entries
// are in its autograd data. So it takes the way of every other gradient: through edges, hooks and
// `grad` into a leaf, and nothing that handles dense gradients tests for more than the null
// address. Ops refuse a tensor without memory, by name (apply.cpp), so no op can ignore the
// entries. Two sparse gradients are added by joining their entries; the sum with a dense one is
// dense. A node other than a leaf's gets the dense form, because its op computes with it.

/// The entries of a sparse tensor: entry i is `values[i]`, a number or a tensor of the remaining
/// dims, at the indices in column i of `indices` (int64). Entries of equal indices are added.
struct SparseParts {
  Tensor indices;
  Tensor values;
  bool coalesced = false;  // the columns ascend, and no two are equal
};

/// A tensor of these entries; every other element is 0. The parts must fit together.
Tensor make_sparse(SparseParts parts, const Shape& sizes);

namespace detail {
SparseParts* find_sparse_parts(const Tensor& tensor);
}
/// The entries of a sparse tensor, null for a dense or undefined one.
inline SparseParts* sparse_parts(const Tensor& tensor) {
  if (!tensor.defined() || tensor.impl().view.data) [[likely]]
    return nullptr;
  return detail::find_sparse_parts(tensor);
}
inline bool is_sparse(const Tensor& tensor) { return sparse_parts(tensor) != nullptr; }

/// `tensor` itself if it is dense, otherwise its dense form. Differentiable.
Tensor dense_of(const Tensor& tensor);
/// a + b, sparse if both are.
Tensor sum_of_sparse(const Tensor& a, const Tensor& b);
/// The sparse tensor with other values, one for each entry; its indices go to their device.
Tensor with_values(const Tensor& sparse, Tensor values);
/// A sparse tensor of the same shape whose elements are all 0.
Tensor without_entries(const Tensor& sparse);

}  // namespace tensora
