#pragma once

// What the blocked products of all types share: the shape of a tile, writing it, and packing.

#include <utility>

#include "tensora/backend/cpu/gemm_simd.h"

namespace tensora::cpu::TENSORA_ISA {

template <class C>
struct Tile {
#if defined(__AVX512F__)
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static constexpr int kDepth =
      376;  // panels of b then do not begin a multiple of 4096 bytes apart
  static constexpr int kRowsInCache = 240;     // rows of a that are packed at once
  static constexpr int kGroup = 10;            // panels of b that stay in the L2 cache
  static constexpr int kColumnsInPlace = 384;  // of b for which rows of a are not packed
#else
  static constexpr int kRows = 6;
  static constexpr int kVectors = 2;
  static constexpr int kDepth = 264;  // as above
  static constexpr int kRowsInCache = 144;
  static constexpr int kGroup = 1;
  static constexpr int kColumnsInPlace = 192;
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

/// As whole vectors are written below, to the bit: how columns are divided into panels must not
/// show in the result.
template <class C>
[[gnu::always_inline]] inline void blend_row(const C* sums, C* out, int64_t n, C alpha, C beta) {
  if (beta == C{0}) {
    for (int64_t j = 0; j < n; ++j) out[j] = alpha * sums[j];
  } else {
    for (int64_t j = 0; j < n; ++j) out[j] = multiply_add<C>(beta, out[j], alpha * sums[j]);
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
        if (beta != C{0}) value = multiply_add<C>(beta, load<V>(row + j * W), value);
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

/// Of each four lanes of x and y two, from the lane First of the four on: x's and y's by turns, or
/// x's before y's.
template <bool ByTurns, int First, class V, int... Lane>
[[gnu::always_inline]] inline V two_of_four(V x, V y, std::integer_sequence<int, Lane...>) {
  constexpr int kCount = sizeof...(Lane);
  return __builtin_shufflevector(x, y,
                                 ((ByTurns ? Lane % 2 : Lane % 4 / 2) * kCount + Lane / 4 * 4 +
                                  First + (ByTurns ? Lane % 4 / 2 : Lane % 2))...);
}

/// Four elements of each of `Groups` lines, of which one is four lines after the other.
template <class C, int Groups, class T>
[[gnu::always_inline]] inline VectorN<C, 4 * Groups> load_groups(const T* const* lines,
                                                                 int64_t depth) {
  if constexpr (Groups == 1) {
    return load_wide<C, 4>(lines[0] + depth);
  } else if constexpr (Groups == 2) {
    return __builtin_shufflevector(load_groups<C, 1>(lines, depth),
                                   load_groups<C, 1>(lines + 4, depth), 0, 1, 2, 3, 4, 5, 6, 7);
  } else {
    return __builtin_shufflevector(load_groups<C, 2>(lines, depth),
                                   load_groups<C, 2>(lines + 8, depth), 0, 1, 2, 3, 4, 5, 6, 7, 8,
                                   9, 10, 11, 12, 13, 14, 15);
  }
}

/// 4 * Groups lines (contiguous along k) become columns of a panel, for four steps of k.
template <class C, int Groups = 1, class T>
[[gnu::always_inline]] inline void transpose_4x4(const T* const* lines, int64_t depth, C* dst,
                                                 int64_t width) {
  using V = VectorN<C, 4 * Groups>;
  constexpr std::make_integer_sequence<int, 4 * Groups> kLane;
  const V r0 = load_groups<C, Groups>(lines, depth), r1 = load_groups<C, Groups>(lines + 1, depth);
  const V r2 = load_groups<C, Groups>(lines + 2, depth);
  const V r3 = load_groups<C, Groups>(lines + 3, depth);
  const V low01 = two_of_four<true, 0>(r0, r1, kLane), high01 = two_of_four<true, 2>(r0, r1, kLane);
  const V low23 = two_of_four<true, 0>(r2, r3, kLane), high23 = two_of_four<true, 2>(r2, r3, kLane);
  store(dst, two_of_four<false, 0>(low01, low23, kLane));
  store(dst + width, two_of_four<false, 2>(low01, low23, kLane));
  store(dst + 2 * width, two_of_four<false, 0>(high01, high23, kLane));
  store(dst + 3 * width, two_of_four<false, 2>(high01, high23, kLane));
}

/// Packs the first `whole_k` steps of lines or a little fewer, and returns how many.
template <class C, int Groups, class T>
int64_t pack_groups(const T* const* lines, int64_t whole_k, int64_t width, C* dst) {
  constexpr int64_t kLines = 4 * Groups;
  const int64_t last_group = (width - 1) / kLines * kLines;
  int64_t depth = 0;
  // A whole cache line of each line at a time: lines a power of two apart evict each other.
  for (; depth + 16 <= whole_k; depth += 16) {
    for (int64_t i = last_group; i >= 0; i -= kLines) {
#pragma GCC unroll 4
      for (int64_t d = depth; d < depth + 16; d += 4) {
        transpose_4x4<C, Groups>(lines + i, d, dst + d * width + i, width);
      }
    }
  }
  for (; depth + 4 <= whole_k; depth += 4) {
    for (int64_t i = last_group; i >= 0; i -= kLines) {
      transpose_4x4<C, Groups>(lines + i, depth, dst + depth * width + i, width);
    }
  }
  return depth;
}

/// Packs lines, each contiguous along k, as [k][width]; width + 3 of them can be read.
template <class C, class T>
void pack_lines(const T* const* lines, int64_t k, int64_t width, C* dst) {
  constexpr int kMost = kLanes<C> / 4;  // groups of four in a vector
  int64_t depth = 0;
  if (kMost >= 4 && width % 16 == 0) {
    depth = pack_groups < C, kMost >= 4 ? 4 : 1 > (lines, k, width, dst);
  } else if (kMost >= 2 && width % 8 == 0) {
    depth = pack_groups < C, kMost >= 2 ? 2 : 1 > (lines, k, width, dst);
  } else {
    // The last group may write past `width`. Those elements are overwritten later, because groups
    // are processed backwards and the final steps of k one by one.
    depth = pack_groups<C, 1>(lines, width % 4 == 0 ? k : k - 4, width, dst);
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
