#pragma once

// What the blocked products of all types share: the shape of a tile, writing it, and packing.

#include "tensora/backend/cpu/gemm_simd.h"

namespace tensora::cpu::TENSORA_ISA {

template <class C>
struct Tile {
#if defined(__AVX512F__)
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static constexpr int kDepth =
      376;  // panels of b then do not begin a multiple of 4096 bytes apart
  static constexpr int kRowsInCache = 240;  // rows of a that are packed at once
  static constexpr int kGroup = 10;         // panels of b that stay in the L2 cache
#else
  static constexpr int kRows = 6;
  static constexpr int kVectors = 2;
  static constexpr int kDepth = 264;  // as above
  static constexpr int kRowsInCache = 144;
  static constexpr int kGroup = 1;
#endif
  static constexpr int kWidth = kVectors * kLanes<C>;
};

template <class C>
struct TileOut {
  C* data;
  int64_t row_stride;
  int64_t columns;  // valid ones
  C alpha;
  C beta;
};

template <class C>
[[gnu::always_inline]] inline void blend_row(const C* sums, C* out, int64_t n, C alpha, C beta) {
  if (beta == C{0}) {
    for (int64_t j = 0; j < n; ++j) out[j] = alpha * sums[j];
  } else {
    for (int64_t j = 0; j < n; ++j) out[j] = alpha * sums[j] + beta * out[j];
  }
}

/// out = alpha * sums + beta * out for a tile of MR rows and NV vectors.
template <class C, int MR, int NV>
[[gnu::always_inline]] inline void write_tile(const Vector<C> (&sums)[MR][NV],
                                              const TileOut<C>& out) {
  using V = Vector<C>;
  constexpr int W = kLanes<C>;
  if (out.columns == NV * W) {
    const C alpha = out.alpha;
    const C beta = out.beta;
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      C* row = out.data + i * out.row_stride;
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) {
        V value = alpha * sums[i][j];
        if (beta != C{0}) value += beta * load<V>(row + j * W);
        store(row + j * W, value);
      }
    }
    return;
  }
  C spilled[MR][NV * W];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) store(&spilled[i][j * W], sums[i][j]);
  }
  for (int i = 0; i < MR; ++i) {
    blend_row(spilled[i], out.data + i * out.row_stride, out.columns, out.alpha, out.beta);
  }
}

/// Four lines (contiguous along k) become columns of a panel, for four steps of k.
template <class C, class T>
[[gnu::always_inline]] inline void transpose_4x4(const T* const lines[4], int64_t depth, C* dst,
                                                 int64_t width) {
  using V = VectorN<C, 4>;
  using I = VectorN<std::conditional_t<sizeof(C) == 4, int32_t, int64_t>, 4>;
  const V r0 = load_wide<C, 4>(lines[0] + depth);
  const V r1 = load_wide<C, 4>(lines[1] + depth);
  const V r2 = load_wide<C, 4>(lines[2] + depth);
  const V r3 = load_wide<C, 4>(lines[3] + depth);
  const V low01 = __builtin_shuffle(r0, r1, I{0, 4, 1, 5});
  const V high01 = __builtin_shuffle(r0, r1, I{2, 6, 3, 7});
  const V low23 = __builtin_shuffle(r2, r3, I{0, 4, 1, 5});
  const V high23 = __builtin_shuffle(r2, r3, I{2, 6, 3, 7});
  store(dst, __builtin_shuffle(low01, low23, I{0, 1, 4, 5}));
  store(dst + width, __builtin_shuffle(low01, low23, I{2, 3, 6, 7}));
  store(dst + 2 * width, __builtin_shuffle(high01, high23, I{0, 1, 4, 5}));
  store(dst + 3 * width, __builtin_shuffle(high01, high23, I{2, 3, 6, 7}));
}

/// Packs lines, each contiguous along k, as [k][width]; width + 3 of them can be read.
template <class C, class T>
void pack_lines(const T* const* lines, int64_t k, int64_t width, C* dst) {
  const int64_t last_group = (width - 1) / 4 * 4;
  // The last group may write past `width`. Those elements are overwritten later, because groups are
  // processed backwards and the final steps of k one by one.
  const int64_t whole_k = width % 4 == 0 ? k : k - 4;
  int64_t depth = 0;
  // A whole cache line of each line at a time: lines a power of two apart evict each other.
  for (; depth + 16 <= whole_k; depth += 16) {
    for (int64_t i = last_group; i >= 0; i -= 4) {
#pragma GCC unroll 4
      for (int64_t d = depth; d < depth + 16; d += 4) {
        transpose_4x4<C>(lines + i, d, dst + d * width + i, width);
      }
    }
  }
  for (; depth + 4 <= whole_k; depth += 4) {
    for (int64_t i = last_group; i >= 0; i -= 4) {
      transpose_4x4<C>(lines + i, depth, dst + depth * width + i, width);
    }
  }
  for (; depth < k; ++depth) {
    for (int64_t i = 0; i < width; ++i) dst[depth * width + i] = widen<C>(lines[i][depth]);
  }
}

template <class C>
[[gnu::always_inline]] inline int64_t padded(int64_t columns) {
  constexpr int64_t W = kLanes<C>;
  return (columns + W - 1) / W * W;
}

/// The width of the next panel when `rest` columns remain. 3 + 1 vectors would leave a slow
/// narrow panel at the end, so it is 2 + 2; see BlockKernels::panels.
template <class C>
[[gnu::always_inline]] inline int64_t panel_columns(int64_t rest) {
  constexpr int64_t kWidth = Tile<C>::kWidth;
  constexpr int64_t kEven = (Tile<C>::kVectors + 1) / 2 * kLanes<C>;
  if (Tile<C>::kVectors > 2 && padded<C>(rest) == 2 * kEven) return kEven;
  return min_of(kWidth, rest);
}

}  // namespace tensora::cpu::TENSORA_ISA
