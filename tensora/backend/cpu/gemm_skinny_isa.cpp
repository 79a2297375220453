// Products with few rows of a: each element of b is used only a few times, so the aim is to read b
// once, in memory order, at full memory bandwidth. Compiled once per instruction set.

#include "tensora/backend/cpu/gemm_simd.h"

namespace tensora::cpu::TENSORA_ISA {

namespace {

template <class T>
void gather(MatrixView<const T> a, int64_t m, int64_t k, gemm_compute_t<T>* dense) {
  using C = gemm_compute_t<T>;
  for (int64_t i = 0; i < m; ++i) {
    C* row = dense + i * k;
    if (a.col_stride == 1) {
      const T* src = a.at(i, 0);
      for (int64_t depth = 0; depth < k; ++depth) row[depth] = widen<C>(src[depth]);
    } else {
      for (int64_t depth = 0; depth < k; ++depth) row[depth] = widen<C>(*a.at(i, depth));
    }
  }
}

constexpr int kDepths = 4;              // rows of b taken at once by along_rows
constexpr int kMostRows = 16;           // of a
constexpr int64_t kLineBytes = 64;      // of the cache
constexpr int64_t kSumsAtOnce = 16384;  // in the L2 cache: longer runs of b matter more than L1

/// The sums of one sweep, apart from out: rows whose distance is a multiple of 4096 bytes, as they
/// often are in out and in b, slow each other down.
template <class C>
struct Sums {
  C* data;
  int64_t row_stride;
};

/// sums[i][0, width) += sum over kDepths of a[i][depth] * b[depth][0, width), width = NV vectors.
/// `ahead` is the distance from b to the rows of the next depths. They are prefetched now: each row
/// is on a page of its own, where the hardware prefetcher has to start again.
template <class T, int NV>
[[gnu::always_inline]] inline void add_rows(const SkinnyProduct<T>& product, int64_t depth,
                                            const T* const b[kDepths], int64_t ahead, int64_t col,
                                            const Sums<gemm_compute_t<T>>& sums) {
  using C = gemm_compute_t<T>;
  using V = Vector<C>;
  constexpr int W = kLanes<C>;
  V bv[kDepths][NV];
#pragma GCC unroll 4
  for (int d = 0; d < kDepths; ++d) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) bv[d][j] = load_wide<C, W>(b[d] + col + j * W);
#pragma GCC unroll 4
    for (int64_t byte = 0; byte < NV * W * int64_t(sizeof(T)); byte += kLineBytes)
      __builtin_prefetch(reinterpret_cast<const char*>(b[d] + ahead + col) + byte);
  }
  for (int64_t i = 0; i < product.m; ++i) {
    const C* a = product.a + i * product.k + depth;
    const C x[kDepths] = {a[0], a[1], a[2], a[3]};
    C* row = sums.data + i * sums.row_stride + col;
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      V sum = load<V>(row + j * W);
#pragma GCC unroll 4
      for (int d = 0; d < kDepths; ++d) sum += x[d] * bv[d][j];
      store(row + j * W, sum);
    }
  }
}

/// One row of b, or the columns after the last whole vector.
template <class T>
[[gnu::always_inline]] inline void add_rest(const SkinnyProduct<T>& product, int64_t depth,
                                            const T* b, int64_t begin, int64_t end,
                                            const Sums<gemm_compute_t<T>>& sums) {
  using C = gemm_compute_t<T>;
  for (int64_t i = 0; i < product.m; ++i) {
    const C x = product.a[i * product.k + depth];
    C* row = sums.data + i * sums.row_stride;
    for (int64_t col = begin; col < end; ++col) row[col] += x * widen<C>(b[col]);
  }
}

/// Sums of the columns begin..begin + width.
template <class T>
void sweep_rows(const SkinnyProduct<T>& product, int64_t begin, int64_t width,
                const Sums<gemm_compute_t<T>>& sums) {
  constexpr int W = kLanes<gemm_compute_t<T>>;
  constexpr int NV = 2;
  int64_t depth = 0;
  for (; depth + kDepths <= product.k; depth += kDepths) {
    const T* const b[kDepths] = {product.b.at(depth, begin), product.b.at(depth + 1, begin),
                                 product.b.at(depth + 2, begin), product.b.at(depth + 3, begin)};
    const int64_t ahead = depth + 2 * kDepths <= product.k ? kDepths * product.b.row_stride : 0;
    int64_t col = 0;
    for (; col + NV * W <= width; col += NV * W)
      add_rows<T, NV>(product, depth, b, ahead, col, sums);
    for (; col + W <= width; col += W) add_rows<T, 1>(product, depth, b, ahead, col, sums);
    if (col < width) {
      for (int d = 0; d < kDepths; ++d) add_rest<T>(product, depth + d, b[d], col, width, sums);
    }
  }
  for (; depth < product.k; ++depth) {
    add_rest<T>(product, depth, product.b.at(depth, begin), 0, width, sums);
  }
}

template <class T>
void along_rows(const SkinnyProduct<T>& product) {
  using C = gemm_compute_t<T>;
  constexpr int64_t W = kLanes<C>;
  alignas(64) C memory[kSumsAtOnce + kMostRows * W];
  const int64_t span = kSumsAtOnce / product.m / W * W;
  const Sums<C> sums = {memory, span + W};
  for (int64_t begin = 0; begin < product.n; begin += span) {
    const int64_t width = min_of(span, product.n - begin);
    for (int64_t i = 0; i < product.m * sums.row_stride; ++i) memory[i] = C{0};
    sweep_rows<T>(product, begin, width, sums);
    for (int64_t i = 0; i < product.m; ++i) {
      const C* row = sums.data + i * sums.row_stride;
      C* out = product.sums + i * product.n + begin;
      for (int64_t col = 0; col < width; ++col) out[col] = row[col];
    }
  }
}

#if defined(__AVX512F__)
constexpr int kDotRows = 4;
#else
constexpr int kDotRows = 2;
#endif
constexpr int kDotColumns = 4;

/// Dot products of `Rows` rows of a with `Columns` columns of b.
template <class T, int Rows, int Columns>
void dots(const SkinnyProduct<T>& product, int64_t row, int64_t col) {
  using C = gemm_compute_t<T>;
  using V = Vector<C>;
  constexpr int W = kLanes<C>;
  const int64_t k = product.k;
  const C* a = product.a + row * k;
  const T* b = product.b.at(0, col);
  const int64_t b_stride = product.b.col_stride;
  V sums[Rows][Columns];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) sums[i][j] = V{};
  }
  int64_t depth = 0;
  for (; depth + W <= k; depth += W) {
    V bv[Columns];
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) bv[j] = load_wide<C, W>(b + j * b_stride + depth);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const V x = load<V>(a + i * k + depth);
#pragma GCC unroll 4
      for (int j = 0; j < Columns; ++j) sums[i][j] += x * bv[j];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) {
      C sum = sum_lanes<C, W>(sums[i][j]);
      for (int64_t d = depth; d < k; ++d) sum += a[i * k + d] * widen<C>(b[j * b_stride + d]);
      product.sums[(row + i) * product.n + col + j] = sum;
    }
  }
}

template <class T, int Columns>
void dots_of_all_rows(const SkinnyProduct<T>& product, int64_t col) {
  int64_t row = 0;
  for (; row + kDotRows <= product.m; row += kDotRows)
    dots<T, kDotRows, Columns>(product, row, col);
  for (; row < product.m; ++row) dots<T, 1, Columns>(product, row, col);
}

template <class T>
void along_columns(const SkinnyProduct<T>& product) {
  int64_t col = 0;
  for (; col + kDotColumns <= product.n; col += kDotColumns) {
    dots_of_all_rows<T, kDotColumns>(product, col);
  }
  for (; col < product.n; ++col) dots_of_all_rows<T, 1>(product, col);
}

}  // namespace

template <class T>
const SkinnyKernels<T>& skinny_kernels() {
  static constexpr SkinnyKernels<T> kernels = {
      .gather = gather<T>, .along_rows = along_rows<T>, .along_columns = along_columns<T>};
  return kernels;
}

template const SkinnyKernels<float>& skinny_kernels();
template const SkinnyKernels<double>& skinny_kernels();
template const SkinnyKernels<Half>& skinny_kernels();
template const SkinnyKernels<BFloat16>& skinny_kernels();
template const SkinnyKernels<int64_t>& skinny_kernels();
template const SkinnyKernels<int32_t>& skinny_kernels();
template const SkinnyKernels<int16_t>& skinny_kernels();
template const SkinnyKernels<int8_t>& skinny_kernels();
template const SkinnyKernels<uint8_t>& skinny_kernels();

}  // namespace tensora::cpu::TENSORA_ISA
