#pragma once

// Triangular solves and the factorisations of Cholesky and of Gauss, of matrices with any strides.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "tensora/backend/cpu/gemm.h"
#include "tensora/backend/cpu/gemm_kernels.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/determinism.h"

// Note [Recursive factorisations]
// A matrix is cut in half, the halves are factorised or solved one after the other, and what
// remains is one large product. Nearly all of the work is done by gemm, at its speed, on our
// threads, and with the same bits for any number of them; a LAPACK would run on one thread or start
// its own. Only the small blocks at the end of the recursion have loops here.

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int64_t kSolveBlock = 16;
inline constexpr int64_t kCholeskyBlock = 24;
inline constexpr int64_t kPanelColumns = 8;

/// parallel_for over matrices. Their products ask for the mode that decides how a library's work is
/// split, and the pool's threads do not have that of the caller.
template <class Body>
void for_each_matrix(int64_t count, int64_t grain, const Body& body) {
  const bool deterministic = is_deterministic();
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    const DeterministicScope scope(deterministic);
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

/// out = out - a @ b
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b,
                      MatrixView<T> out) {
  if (m == 0 || n == 0 || k == 0) return;
  gemm(Gemm<T>{.m = m,
               .n = n,
               .k = k,
               .a = {a.data, 0, a.row_stride, a.col_stride},
               .b = {b.data, 0, b.row_stride, b.col_stride},
               .out = {out.data, 0, out.row_stride, out.col_stride},
               .alpha = -1,
               .beta = 1});
}

template <class T>
MatrixView<T> block_at(MatrixView<T> x, int64_t row, int64_t col) {
  return {x.at(row, col), x.row_stride, x.col_stride};
}

template <class T>
MatrixView<T> flipped(MatrixView<T> x) {
  return {x.data, x.col_stride, x.row_stride};
}

/// What is solved: a triangle, and whether its diagonal counts as ones.
struct Triangle {
  bool upper = false;
  bool unit = false;
};

// Row by row where the rows of b are contiguous: each is a combination of those already solved.
template <class T>
void solve_rows(MatrixView<T> a /* n n */, MatrixView<T> b /* n m */, int64_t n, int64_t m,
                Triangle kind) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = kind.upper ? n - 1 - step : step;
    T* const row = b.at(i, 0);
    for (int64_t done = 0; done < step; ++done) {
      const int64_t k = kind.upper ? n - 1 - done : done;
      const T factor = *a.at(i, k);
      const T* const other = b.at(k, 0);
      if (b.col_stride == 1) {
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) row[j] -= factor * other[j];
      } else {
        for (int64_t j = 0; j < m; ++j) row[j * b.col_stride] -= factor * other[j * b.col_stride];
      }
    }
    if (kind.unit) continue;
    const T divisor = *a.at(i, i);
    for (int64_t j = 0; j < m; ++j) row[j * b.col_stride] /= divisor;
  }
}

// Column by column where the columns of b and the rows of a are contiguous.
template <class T>
void solve_columns(MatrixView<T> a, MatrixView<T> b, int64_t n, int64_t m, Triangle kind) {
  for (int64_t j = 0; j < m; ++j) {
    T* const x = b.at(0, j);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = kind.upper ? n - 1 - step : step;
      const int64_t first = kind.upper ? i + 1 : 0, last = kind.upper ? n : i;
      const T* const row = a.at(i, 0);
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = first; k < last; ++k) sum += row[k] * x[k];
      x[i] -= sum;
      if (!kind.unit) x[i] /= row[i];
    }
  }
}

/// b = a^-1 @ b
template <class T>
void solve_triangle(MatrixView<T> a /* n n */, MatrixView<T> b /* n m */, int64_t n, int64_t m,
                    Triangle kind) {
  if (n <= kSolveBlock) {
    if (b.row_stride == 1 && a.col_stride == 1 && (b.col_stride != 1 || m == 1))
      return solve_columns(a, b, n, m, kind);
    return solve_rows(a, b, n, m, kind);
  }
  const int64_t top = n / 2, bottom = n - top;
  const MatrixView<T> b_bottom = block_at(b, top, 0);
  if (kind.upper) {
    solve_triangle(block_at(a, top, top), b_bottom, bottom, m, kind);
    subtract_product(top, m, bottom, block_at(a, 0, top), b_bottom, b);
    solve_triangle(a, b, top, m, kind);
  } else {
    solve_triangle(a, b, top, m, kind);
    subtract_product(bottom, m, top, block_at(a, top, 0), b, b_bottom);
    solve_triangle(block_at(a, top, top), b_bottom, bottom, m, kind);
  }
}

// The lower triangle of out = out - x @ x^T.
template <class T>
void subtract_square(int64_t n, int64_t k, MatrixView<T> x /* n k */, MatrixView<T> out /* n n */) {
  if (n <= 4 * kCholeskyBlock) return subtract_product(n, n, k, x, flipped(x), out);
  const int64_t top = n / 2;
  const MatrixView<T> x_bottom = block_at(x, top, 0);
  subtract_square(top, k, x, out);
  subtract_product(n - top, top, k, x_bottom, flipped(x), block_at(out, top, 0));
  subtract_square(n - top, k, x_bottom, block_at(out, top, top));
}

// In a copy whose rows are contiguous, whatever the strides of a are.
template <class T>
int64_t factorise_small_cholesky(MatrixView<T> a /* n n */, int64_t n) {
  T rows[kCholeskyBlock][kCholeskyBlock];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) rows[i][j] = *a.at(i, j);
  int64_t failed = 0;
  for (int64_t i = 0; i < n && !failed; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < j; ++k) sum += rows[i][k] * rows[j][k];
      const T rest = rows[i][j] - sum;
      if (i == j && !(rest > 0)) failed = i + 1;
      rows[i][j] = i == j ? std::sqrt(rest) : rest / rows[j][j];
    }
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) *a.at(i, j) = rows[i][j];
  return failed;
}

/// Replaces the lower triangle of a symmetric matrix by its factor; what lies above is overwritten.
/// Returns 0, or the order of the first leading minor that is not positive.
template <class T>
int64_t factorise_cholesky(MatrixView<T> a /* n n */, int64_t n) {
  if (n <= kCholeskyBlock) return factorise_small_cholesky(a, n);
  const int64_t top = n / 2, bottom = n - top;
  if (const int64_t failed = factorise_cholesky(a, top)) return failed;
  const MatrixView<T> lower = block_at(a, top, 0), rest = block_at(a, top, top);
  solve_triangle(a, flipped(lower), top, bottom, {});  // lower = lower @ a^-T
  subtract_square(bottom, top, lower, rest);
  const int64_t failed = factorise_cholesky(rest, bottom);
  return failed ? top + failed : 0;
}

template <class T>
void swap_rows(MatrixView<T> a, int64_t i, int64_t k, int64_t columns) {
  if (i == k) return;
  for (int64_t j = 0; j < columns; ++j) std::swap(*a.at(i, j), *a.at(k, j));
}

/// Exchanges rows i and pivots[i] - 1 for i in [first, last), or back in the opposite order.
template <class T>
void apply_pivots(MatrixView<T> a, int64_t columns, const int32_t* pivots, int64_t stride,
                  int64_t first, int64_t last, bool back = false) {
  for (int64_t step = first; step < last; ++step) {
    const int64_t i = back ? last - 1 - (step - first) : step;
    swap_rows(a, i, int64_t{pivots[i * stride]} - 1, columns);
  }
}

// A few columns: the pivot of each, and the multiples of its row that clear the column.
template <class T>
int64_t factorise_panel(MatrixView<T> a /* m n */, int64_t m, int64_t n, int32_t* pivots,
                        int64_t stride, bool pivot) {
  int64_t singular = 0;
  for (int64_t j = 0; j < std::min(m, n); ++j) {
    int64_t largest = j;
    if (pivot)
      for (int64_t i = j + 1; i < m; ++i)
        if (std::abs(*a.at(i, j)) > std::abs(*a.at(largest, j))) largest = i;
    pivots[j * stride] = static_cast<int32_t>(largest + 1);
    swap_rows(a, j, largest, n);
    const T diagonal = *a.at(j, j);
    if (diagonal == 0) {
      if (!singular) singular = j + 1;
      continue;
    }
    const T* const row = a.at(j, 0);
    for (int64_t i = j + 1; i < m; ++i) {
      T* const other = a.at(i, 0);
      const T factor = other[j * a.col_stride] / diagonal;
      other[j * a.col_stride] = factor;
      for (int64_t k = j + 1; k < n; ++k) other[k * a.col_stride] -= factor * row[k * a.col_stride];
    }
  }
  return singular;
}

/// Replaces a by its factors: below the diagonal those of the unit lower triangle, on it and above
/// those of the upper one. Row i was exchanged with row pivots[i] - 1. Returns 0, or the number of
/// the first diagonal element of the upper factor that is exactly zero, counted from 1.
template <class T>
int64_t factorise_lu(MatrixView<T> a /* m n */, int64_t m, int64_t n, int32_t* pivots,
                     int64_t stride, bool pivot) {
  const int64_t columns = std::min(m, n);
  if (columns <= kPanelColumns) {
    const int64_t singular = factorise_panel(a, m, columns, pivots, stride, pivot);
    if (n == columns) return singular;
    const MatrixView<T> rest = block_at(a, 0, columns);
    apply_pivots(rest, n - columns, pivots, stride, 0, columns);
    solve_triangle(a, rest, columns, n - columns, {.unit = true});
    return singular;
  }
  const int64_t left = columns / 2;
  const MatrixView<T> right = block_at(a, 0, left), corner = block_at(a, left, left);
  const int64_t first = factorise_lu(a, m, left, pivots, stride, pivot);
  apply_pivots(right, n - left, pivots, stride, 0, left);
  solve_triangle(a, right, left, n - left, {.unit = true});
  subtract_product(m - left, n - left, left, block_at(a, left, 0), right, corner);
  const int64_t second =
      factorise_lu(corner, m - left, n - left, pivots + left * stride, stride, pivot);
  for (int64_t i = left; i < columns; ++i) pivots[i * stride] += static_cast<int32_t>(left);
  apply_pivots(a, left, pivots, stride, left, columns);
  return first ? first : second ? second + left : 0;
}

}  // namespace tensora::cpu::TENSORA_ISA
