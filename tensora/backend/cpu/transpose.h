#pragma once

// Transposed copies of matrices, in the registers of the instruction set.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tensora/backend/cpu/gemm_simd.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {

// Note [Transposed copies]
// Where rows are a power of two apart, few of their lines fit in a cache at once. So a square block
// is read, transposed and written in registers: with the widest vectors each line of memory is read
// once and written once, as a whole, and large results can be written past the cache. Blocks follow
// one another along the rows of the result for kBand elements only, then down its columns, so that
// the pages of the source that are in use stay in the TLB.
inline constexpr int64_t kBand = 64;

/// The side of a block. Wide vectors of bytes would have more of them than there are registers.
template <class T>
inline constexpr int kBlockSide =
    (sizeof(T) == 1 ? 16 : kVectorBytes) / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kLineElements = static_cast<int>(kStreamUnit / sizeof(T));

template <class T>
using BlockRow = VectorN<T, kBlockSide<T>>;

/// Elements in 16 bytes, within which x86 interleaves vectors by one instruction.
template <class T>
inline constexpr int kQuad = static_cast<int>(16 / sizeof(T));

// The lower (or upper) halves of the 16 bytes of x, alternating with those of y.
template <bool upper, class T, class Vector, int... lane>
inline Vector interleave(Vector x, Vector y, std::integer_sequence<int, lane...>) {
  constexpr int side = kBlockSide<T>, quad = kQuad<T>;
  return __builtin_shufflevector(
      x, y, (lane % 2 * side + lane / quad * quad + lane % quad / 2 + (upper ? quad / 2 : 0))...);
}

// Of [p q] above [r s], squares of `distance` lanes, q and r change places.
template <int distance, class Vector, int... lane>
inline void exchange(Vector& above, Vector& below, std::integer_sequence<int, lane...>) {
  constexpr int side = sizeof...(lane);
  const Vector first =
      __builtin_shufflevector(above, below, (lane & distance ? side + lane - distance : lane)...);
  below = __builtin_shufflevector(above, below, (lane & distance ? side : distance) + lane...);
  above = first;
}

// Interleaving the first half of some rows with the second, as often as it takes to get back to the
// beginning, transposes the squares of 16 bytes; then squares change places.
template <class T, int distance>
inline void transpose_lanes(BlockRow<T> (&rows)[kBlockSide<T>]) {
  constexpr int side = kBlockSide<T>, quad = kQuad<T>;
  constexpr auto lanes = std::make_integer_sequence<int, side>();
  if constexpr (distance < quad) {
    BlockRow<T> mixed[side];
#pragma GCC unroll 32
    for (int i = 0; i < side; i += 2) {
      const int at = i / quad * quad + i % quad / 2;
      mixed[i] = interleave<false, T>(rows[at], rows[at + quad / 2], lanes);
      mixed[i + 1] = interleave<true, T>(rows[at], rows[at + quad / 2], lanes);
    }
#pragma GCC unroll 32
    for (int i = 0; i < side; ++i) rows[i] = mixed[i];
    if constexpr (distance > 1) transpose_lanes<T, distance / 2>(rows);
  } else {
    transpose_lanes<T, distance / 2>(rows);
#pragma GCC unroll 32
    for (int i = 0; i < side; ++i)
      if (!(i & distance)) exchange<distance>(rows[i], rows[i + distance], lanes);
  }
}

/// For what is less than a block, and for elements too wide to be lanes.
template <class T>
inline void transpose_elements(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                               int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[r * to_stride + c] = from[c * from_stride + r];
}

template <class T>
inline void transpose_block(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int side = kBlockSide<T>;
  if constexpr (sizeof(T) == 16) {
    transpose_elements(from, from_stride, to, to_stride, side, side);
  } else {
    BlockRow<T> rows[side];
#pragma GCC unroll 32
    for (int i = 0; i < side; ++i) std::memcpy(&rows[i], from + i * from_stride, sizeof(rows[i]));
    transpose_lanes<T, side / 2>(rows);
#pragma GCC unroll 32
    for (int i = 0; i < side; ++i) std::memcpy(to + i * to_stride, &rows[i], sizeof(rows[i]));
  }
}

// Whole lines of the result: what is streamed in parts would be written to memory in parts.
template <class T>
inline void stream_block(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int side = kBlockSide<T>, width = kLineElements<T>;
  alignas(64) T lines[side][width];
  for (int c = 0; c < width; c += side)
    transpose_block(from + c * from_stride, from_stride, &lines[0][c], width);
  for (int r = 0; r < side; ++r)
    copy_streaming(reinterpret_cast<char*>(to + r * to_stride),
                   reinterpret_cast<const char*>(lines[r]), sizeof(lines[r]));
}

/// Rows of the result, in blocks of `side` by `width`.
template <int64_t side, int64_t width, class T, class Block>
void transpose_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                    int64_t cols, const Block& block) {
  for (int64_t band = 0; band < cols; band += kBand) {
    const int64_t band_end = std::min(cols, band + kBand);
    for (int64_t r = 0; r < rows; r += side)
      for (int64_t c = band; c < band_end; c += width) {
        const T* const source = from + c * from_stride + r;
        T* const target = to + r * to_stride + c;
        if (r + side <= rows && c + width <= band_end)
          block(source, from_stride, target, to_stride);
        else
          transpose_elements(source, from_stride, target, to_stride, std::min(side, rows - r),
                             std::min(width, band_end - c));
      }
  }
}

/// to[r][c] = from[c][r]
template <class T>
void copy_transposed(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                     int64_t cols) {
  constexpr int64_t kRows = 64, kTaskElements = 32 * 1024;
  constexpr int64_t side = kBlockSide<T>, line = kLineElements<T>;
  const bool stream = static_cast<size_t>(rows * cols) * sizeof(T) >= kStreamBytes &&
                      reinterpret_cast<uintptr_t>(to) % kStreamUnit == 0 && to_stride % line == 0;
  parallel_for((rows + kRows - 1) / kRows, std::max<int64_t>(1, kTaskElements / (kRows * cols)),
               [&](int64_t first, int64_t last) {
                 const int64_t begin = first * kRows, count = std::min(rows, last * kRows) - begin;
                 const T* const source = from + begin;
                 T* const target = to + begin * to_stride;
                 if (!stream)
                   return transpose_rows<side, side>(source, from_stride, target, to_stride, count,
                                                     cols, transpose_block<T>);
                 transpose_rows<side, line>(source, from_stride, target, to_stride, count, cols,
                                            stream_block<T>);
                 finish_streaming();
               });
}

}  // namespace tensora::cpu::TENSORA_ISA
