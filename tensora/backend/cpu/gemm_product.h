#pragma once

// One matrix product as the ways through gemm see it. Internal.

#include <cstdint>
#include <utility>

#include "tensora/backend/cpu/gemm_kernels.h"

namespace tensora::cpu {

inline int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t round_up(int64_t x, int64_t y) { return ceil_div(x, y) * y; }

/// out = alpha * a @ b + beta * out
template <class T>
struct Product {
  using Compute = gemm_compute_t<T>;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixView<const T> a = {};
  MatrixView<const T> b = {};
  MatrixView<T> out = {};
  Compute alpha = 1;
  Compute beta = 0;
  int64_t library_pieces = 1;  // see Note [Same bits for any number of threads]

  int64_t work() const { return m * n * k; }
};

/// out^T = b^T @ a^T
template <class T>
Product<T> transposed(const Product<T>& p) {
  const auto flip = [](auto view) {
    std::swap(view.row_stride, view.col_stride);
    return view;
  };
  Product<T> result = p;
  result.m = p.n;
  result.n = p.m;
  result.a = flip(p.b);
  result.b = flip(p.a);
  result.out = flip(p.out);
  return result;
}

}  // namespace tensora::cpu
