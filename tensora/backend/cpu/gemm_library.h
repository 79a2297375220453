#pragma once

// Internal header: matrix products of installed libraries, for the shapes where they win.

#include <cstdint>

namespace tensora::cpu {

/// out (m n, row-major) = alpha * op(a) @ op(b) + beta * out, on the calling thread alone. `a_ld`
/// and `b_ld` are the distances between rows of a and b as they are stored.
template <class T>
struct LibraryProduct {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t a_ld = 0;
  bool a_transposed = false;
  const T* b = nullptr;
  int64_t b_ld = 0;
  bool b_transposed = false;
  T* out = nullptr;
  int64_t out_ld = 0;
  T alpha = 1, beta = 0;
};

template <class T>
using LibraryGemm = void (*)(const LibraryProduct<T>&);

/// The library to use for a product of this size, or null where our own kernels win or no library
/// is installed. Libraries are opened at the first product large enough for them.
LibraryGemm<float> library_gemm_f32(int64_t m, int64_t n, int64_t k, bool b_transposed);
LibraryGemm<double> library_gemm_f64(int64_t m, int64_t n, int64_t k);

/// The names of the libraries that were found, for reports: "OpenBLAS, oneDNN" or "none".
const char* gemm_libraries();

}  // namespace tensora::cpu
