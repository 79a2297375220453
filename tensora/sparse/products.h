#pragma once

#include "tensora/sparse/sparse_tensor.h"

namespace tensora::sparse {

/// A sparse matrix times a dense one, or a dense vector.
Tensor mm(const SparseTensor& self, const Tensor& mat2);
/// A dense matrix, or vector, times a sparse matrix.
Tensor mm(const Tensor& self, const SparseTensor& mat2);
/// The product of two sparse matrices, in the layout of the first. Takes memory for every
/// multiplication, not for every element.
SparseTensor mm(const SparseTensor& self, const SparseTensor& mat2);
Tensor mv(const SparseTensor& self, const Tensor& vec);
Tensor matmul(const SparseTensor& self, const Tensor& other);
Tensor matmul(const Tensor& self, const SparseTensor& other);
SparseTensor matmul(const SparseTensor& self, const SparseTensor& other);

/// beta * self + alpha * mat1 @ mat2; self broadcasts.
Tensor addmm(const Tensor& self, const SparseTensor& mat1, const Tensor& mat2, Scalar beta = 1,
             Scalar alpha = 1);
/// beta * self + alpha * mat1 @ mat2 at the entries of `self`, which are coalesced first.
SparseTensor sampled_addmm(const SparseTensor& self, const Tensor& mat1, const Tensor& mat2,
                           Scalar beta = 1, Scalar alpha = 1);

}  // namespace tensora::sparse
