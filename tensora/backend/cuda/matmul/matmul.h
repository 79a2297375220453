#pragma once

#include <cstdint>
#include <optional>
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

/// What is done to a product before it is stored, which saves a pass over it.
struct Epilogue {
  enum class Function {
    none,
    relu,
    gelu,           // the tanh form
    relu_gradient,  // the product is a gradient: it is multiplied by relu'(aux)
    gelu_gradient,
  };
  Function function = Function::none;
  /// n numbers of the product's dtype, added to every row before the function.
  const void* bias = nullptr;
  /// What the function's gradient needs: left here by relu and gelu if it is not null, read by the
  /// gradients. For gelu the function's argument (m rows of `aux_stride` elements, a multiple of
  /// 8); for relu a bit per element (m rows of `aux_stride` bits, a multiple of 128).
  void* aux = nullptr;
  int64_t aux_stride = 0;
  /// Sums computed along with the product, none if null; at most one of them. Of the result over
  /// its rows (n numbers; with relu_gradient or gelu_gradient), of `a` over k (m numbers), of `b`
  /// over k (n).
  void *sums_of_out = nullptr, *sums_of_a = nullptr, *sums_of_b = nullptr;
};

/// out[b] = epilogue(alpha * a[b] @ b[b] + beta * added[b])
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
  Epilogue epilogue = {};
  /// Laid out like `out`; null: `out` itself.
  const void* added = nullptr;
  /// float32 for products of float16 or bfloat16 that are not to be rounded; by default `dtype`.
  std::optional<DType> out_dtype = {};
};

/// Whether cuBLASLt can read the matrix in place: one of its strides is 1 and the other is at least
/// the length of a row.
bool is_blas_layout(const MatrixBatch& matrix, int64_t rows, int64_t cols);

/// float16, bfloat16, float32 or float64 through cuBLASLt; every operand must have a BLAS layout.
/// False, and nothing is queued, if the library has no kernel with this epilogue for these
/// operands; without an epilogue it has one or this throws.
bool blas_matmul(const Matmul& args);

/// Lets float32 products use TF32's 10-bit mantissas on the tensor cores. Off by default.
void allow_tf32(bool allowed);
bool tf32_allowed();

/// The first product of each shape is computed by several of the library's algorithms, which are
/// timed, and the fastest is used from then on; by default the one that the library recommends is.
/// On at start where the environment says TENSORA_CUDA_TUNE_MATMUL=1. Algorithms may differ in the
/// last bits, so nothing is timed while is_deterministic(), nor while a graph is captured: run a
/// step first.
void set_matmul_tuning(bool on);
bool matmul_tuning();

}  // namespace tensora::cuda
