// Registers nothing: helpers of the other sources.

#include "tensora/ops/linalg/linalg_common.h"

#include "tensora/ops/complex/complex.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"

namespace tensora::linalg {

void check_matrix(std::string_view op, std::string_view argument, const Tensor& A) {
  check(A.defined(), op, ": ", argument, " is undefined");
  check(A.dim() >= 2, op, ": The input tensor ", argument,
        " must have at least 2 dimensions, got shape ", A.sizes());
  const DType parts = real_dtype(A.dtype());
  check(parts == kFloat32 || parts == kFloat64, op,
        ": Expected a floating point tensor as input. Got ", A.dtype(),
        "; matrices are factorised in float32 and float64");
}

void check_square(std::string_view op, std::string_view argument, const Tensor& A) {
  check_matrix(op, argument, A);
  check(A.size(-1) == A.size(-2), op, ": ", argument,
        " must be batches of square matrices, but they are ", A.size(-2), " by ", A.size(-1),
        " matrices");
}

void check_same_dtype(std::string_view op, const Tensor& A, const Tensor& B) {
  check(A.dtype() == B.dtype(), op,
        ": Expected A and B to have the same dtype, but found A of type ", A.dtype(),
        " and B of type ", B.dtype(), " instead");
}

Strides result_strides(const Infer& infer, const Shape& sizes, bool turned) {
  return infer.device.is_cuda() != turned ? column_major_strides(sizes) : contiguous_strides(sizes);
}

Tensor adjoint(const Tensor& A) { return conj(transpose(A, -2, -1)); }

Shape batch_of(const Tensor& A, int inner) {
  Shape batch = A.sizes();
  batch.resize(A.dim() - inner);
  return batch;
}

Tensor with_batch(const Tensor& A, const Shape& batch) {
  Shape sizes = batch;
  sizes.push_back(A.size(-2));
  sizes.push_back(A.size(-1));
  return sizes == A.sizes() ? A : expand(A, sizes);
}

std::pair<Tensor, Tensor> broadcast_batches(std::string_view op, const Tensor& A, const Tensor& B) {
  const Shape batch = broadcast_shapes(batch_of(A), batch_of(B), op);
  return {with_batch(A, batch), with_batch(B, batch)};
}

Tensor identity(int64_t n, const Tensor& A) {
  return eye(n, {.dtype = A.dtype(), .device = A.device()});
}

Tensor diagonals(const Tensor& A) { return diagonal(A, 0, -2, -1); }

}  // namespace tensora::linalg
