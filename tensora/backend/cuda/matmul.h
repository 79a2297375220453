#pragma once

#include <cstdint>
#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cuda {

/// One operand as a batch of matrices: element (b, i, j) lies at
/// data[b * batch_stride + i * row_stride + j * col_stride], in elements.
struct MatrixBatch {
  void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
};

/// out[b] = alpha * a[b] @ b[b] + beta * out[b]
struct Matmul {
  std::string_view op;
  int device = 0;
  DType dtype = DType::float32;
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  MatrixBatch a;    // batch m k
  MatrixBatch b;    // batch k n
  MatrixBatch out;  // batch m n
  double alpha = 1, beta = 0;
};

/// Whether cuBLASLt can read the matrix where it lies: one of its strides is 1 and the other
/// reaches over a whole row.
bool is_blas_layout(const MatrixBatch& matrix, int64_t rows, int64_t cols);

/// float16, bfloat16, float32 or float64 through cuBLASLt; every operand must have a BLAS layout.
void blas_matmul(const Matmul& args);

/// Lets float32 products use TF32's 10-bit mantissas on the tensor cores. Off at first.
void allow_tf32(bool allowed);
bool tf32_allowed();

}  // namespace tensora::cuda
