#pragma once

#include <cstdint>

namespace tensora::cpu {

/// One operand as a batch of matrices with any strides (0 and negative ones included): element
/// (b, i, j) lives at data[b * batch_stride + i * row_stride + j * col_stride].
template <class T>
struct MatrixBatch {
  T* data = nullptr;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
};

/// out[b] = alpha * a[b] @ b[b] + beta * out[b]
template <class T>
struct Gemm {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixBatch<const T> a = {};  // batch m k
  MatrixBatch<const T> b = {};  // batch k n
  MatrixBatch<T> out = {};      // batch m n
  double alpha = 1;
  double beta = 0;
};

/// T is float, double, Half, BFloat16, int64_t, int32_t, int16_t, int8_t or uint8_t.
///
/// With beta == 0 `out` is never read, so NaNs in it do not leak; with k == 0 or alpha == 0 the
/// operands are not read and out becomes beta * out. Half and BFloat16 accumulate in float and are
/// rounded once. Integers wrap; their alpha and beta must be whole numbers. `out` must not overlap
/// the operands or itself.
template <class T>
void gemm(const Gemm<T>& args);

}  // namespace tensora::cpu
