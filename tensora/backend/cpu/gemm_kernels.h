#pragma once

// The interface between gemm.cpp and the kernels in the *_isa.cpp files. Internal.

#include <cstdint>

#include "tensora/base/half.h"

namespace tensora::cpu {

/// The type in which products of T are accumulated. Narrow integers wrap at 32 bits and are
/// truncated at the end, which gives the same bits; unsigned because wrapping is intended.
template <class T>
struct GemmCompute;
template <>
struct GemmCompute<float> {
  using type = float;
};
template <>
struct GemmCompute<double> {
  using type = double;
};
template <>
struct GemmCompute<Half> {
  using type = float;
};
template <>
struct GemmCompute<BFloat16> {
  using type = float;
};
template <>
struct GemmCompute<int64_t> {
  using type = uint64_t;
};
template <>
struct GemmCompute<int32_t> {
  using type = uint32_t;
};
template <>
struct GemmCompute<int16_t> {
  using type = uint32_t;
};
template <>
struct GemmCompute<int8_t> {
  using type = uint32_t;
};
template <>
struct GemmCompute<uint8_t> {
  using type = uint32_t;
};
template <class T>
using gemm_compute_t = typename GemmCompute<T>::type;

template <class T>
struct MatrixView {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t col_stride = 0;

  T* at(int64_t row, int64_t col) const { return data + row * row_stride + col * col_stride; }
};

/// out[m, n] = alpha * a[m, k] @ b[k, n] + beta * out[m, n] for k <= k_block, on one thread.
template <class T>
struct BlockProduct {
  using Compute = gemm_compute_t<T>;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixView<const T> a = {};
  const Compute* b_packed =
      nullptr;                       // from pack_b; if null, b is read in place (only T == Compute)
  MatrixView<const Compute> b = {};  // col_stride 1
  Compute* out = nullptr;            // col_stride 1
  int64_t out_row_stride = 0;
  Compute alpha = 1;
  Compute beta = 0;
  Compute* scratch = nullptr;  // BlockKernels::scratch elements
};

template <class T>
struct BlockKernels {
  using Compute = gemm_compute_t<T>;
  int64_t vector_width;      // packed columns are padded to a multiple of this
  int64_t panel_width;       // columns of a full panel of b
  int64_t panel_height;      // rows of a full panel of a
  int64_t row_block;         // rows of a that are packed at once
  int64_t column_multiple;   // where columns may be divided among threads
  int64_t columns_in_cache;  // of b, of which k_block rows stay in a core's cache
  int64_t columns_in_place;  // up to so many columns of b, rows of a are read in place
  int64_t k_block;           // most steps of k at once
  int64_t k_multiple;        // fewer are a multiple of this
  int64_t scratch;
  /// Into how many parts n columns can be divided, at multiples of panel_width, without splitting a
  /// panel; the last part may be wider than one panel.
  int64_t (*panels)(int64_t n);
  /// Writes b[k, n] as panels into packed: k * round_up(n, vector_width) elements.
  /// The panels from column col on, a multiple of panel_width, begin at packed + k * col.
  void (*pack_b)(MatrixView<const T> b, int64_t k, int64_t n, Compute* packed);
  void (*multiply)(const BlockProduct<T>& product);
  /// out = alpha * sums + beta * out, in Compute; sums[m, n] has row stride n.
  void (*finish)(int64_t m, int64_t n, const Compute* sums, MatrixView<T> out, Compute alpha,
                 Compute beta);
};

/// sums[m, n] = a[m, k] @ b[k, n] for m <= 16; sums has row stride n. One thread.
template <class T>
struct SkinnyProduct {
  using Compute = gemm_compute_t<T>;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const Compute* a = nullptr;  // row stride k, col_stride 1
  MatrixView<const T> b = {};
  Compute* sums = nullptr;
};

template <class T>
struct SkinnyKernels {
  using Compute = gemm_compute_t<T>;
  /// Converts a[m, k] to a dense matrix.
  void (*gather)(MatrixView<const T> a, int64_t m, int64_t k, Compute* dense);
  void (*along_rows)(const SkinnyProduct<T>& product);     // b.col_stride == 1
  void (*along_columns)(const SkinnyProduct<T>& product);  // b.row_stride == 1
};

// One set of kernels for each instruction set, see isa.h.
namespace baseline {
template <class T>
const BlockKernels<T>& block_kernels();
template <class T>
const SkinnyKernels<T>& skinny_kernels();
}  // namespace baseline
namespace avx2 {
template <class T>
const BlockKernels<T>& block_kernels();
template <class T>
const SkinnyKernels<T>& skinny_kernels();
}  // namespace avx2
namespace avx512 {
template <class T>
const BlockKernels<T>& block_kernels();
template <class T>
const SkinnyKernels<T>& skinny_kernels();
}  // namespace avx512
// For processors with AVX-512 and its BF16 extension.
namespace avx512bf16 {
/// The same kernels with those that multiply pairs in their place.
BlockKernels<BFloat16> block_kernels(BlockKernels<BFloat16> kernels);
SkinnyKernels<BFloat16> skinny_kernels();
}  // namespace avx512bf16
// For processors that also have AMX.
namespace amx {
/// The same kernels with those that multiply tiles in their place.
BlockKernels<BFloat16> block_kernels(BlockKernels<BFloat16> kernels);
}  // namespace amx

/// The kernels with which gemm multiplies bfloat16, where the processor has instructions for it;
/// else null.
const BlockKernels<BFloat16>* native_bfloat16_kernels();

}  // namespace tensora::cpu
