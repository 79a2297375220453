#pragma once

// Not in tensora/ops.h: tensora/sparse.h has the sparse tensors that are made of these.

#include <tuple>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct CsrTransposeAttrs {
  int64_t columns = 0;
};
/// Outputs: crow_indices, col_indices, order.
extern OpDef<CsrTransposeAttrs> csr_transpose_op;

/// The entries of a sparse matrix sorted by column, and within a column in their order: its
/// transpose's crow_indices (columns + 1) and col_indices (nnz), and which entry each one was.
/// Takes time proportional to nnz + columns.
std::tuple<Tensor, Tensor, Tensor> csr_transpose(const Tensor& crow_indices,
                                                 const Tensor& col_indices, int64_t columns);
/// The row of each of the `nnz` entries of a sparse matrix.
Tensor csr_row_indices(const Tensor& crow_indices, int64_t nnz);

}  // namespace tensora
