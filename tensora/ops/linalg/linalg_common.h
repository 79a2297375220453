#pragma once

// Internal header: what the functions of tensora::linalg check, and how they turn matrices around.

#include "tensora/dispatch/op.h"

namespace tensora::linalg {

/// Throws, naming `op`, unless `A` has at least two dims and a dtype that factorisations support.
void check_matrix(std::string_view op, std::string_view argument, const Tensor& A);
/// The same, and the last two dims have one size.
void check_square(std::string_view op, std::string_view argument, const Tensor& A);
/// Throws unless both have one dtype.
void check_same_dtype(std::string_view op, const Tensor& A, const Tensor& B);

/// The strides of what the kernels compute: they combine rows on the CPU, and the GPU's libraries
/// store columns. `turned` if the transpose is computed.
Strides result_strides(const Infer& infer, const Shape& sizes, bool turned = false);

/// The conjugate transpose of each matrix; a view if it is real.
Tensor adjoint(const Tensor& A);
/// The matrices as a batch of shape `batch`; a view.
Tensor with_batch(const Tensor& A, const Shape& batch);
Shape batch_of(const Tensor& A, int inner = 2);
/// Both operands with their batch dims broadcast against each other.
std::pair<Tensor, Tensor> broadcast_batches(std::string_view op, const Tensor& A, const Tensor& B);
/// The unit matrix, like `A` in dtype and device.
Tensor identity(int64_t n, const Tensor& A);
/// The main diagonals of the matrices; a view.
Tensor diagonals(const Tensor& A);

}  // namespace tensora::linalg
