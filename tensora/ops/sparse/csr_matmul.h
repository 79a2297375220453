#pragma once

// Not in tensora/ops.h: tensora/sparse.h has the sparse tensors that are made of these.

#include "tensora/dispatch/op_def.h"

namespace tensora {

extern OpDef<NoAttrs> csr_matmul_op, csr_sampled_matmul_op;

/// A sparse matrix times a dense one. Row i of the M x K matrix has the entries from
/// `crow_indices[i]` to `crow_indices[i + 1]`, at the columns `col_indices`, in any order; entries
/// of one column are added. crow_indices: M + 1, col_indices and values: nnz, dense: K N; the
/// result: M N. float16 and bfloat16 are summed in float32.
Tensor csr_matmul(const Tensor& crow_indices, const Tensor& col_indices, const Tensor& values,
                  const Tensor& dense);
/// The elements of `mat1 @ mat2ᵀ` at the entries of such a matrix: for each entry the dot product
/// of a row of mat1 (M N), that of its row, and one of mat2 (K N), that of its column.
Tensor csr_sampled_matmul(const Tensor& crow_indices, const Tensor& col_indices, const Tensor& mat1,
                          const Tensor& mat2);

}  // namespace tensora
