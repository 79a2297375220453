#pragma once

// Transposed copies of matrices, in the registers of the instruction set.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

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

#if defined(__AVX512F__)
inline constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int64_t kVectorBytes = 32;
#else
inline constexpr int64_t kVectorBytes = 16;
#endif

/// The side of a block. Wide vectors of bytes would have more of them than there are registers.
template <class T>
inline constexpr int kBlockSide =
    static_cast<int>((sizeof(T) == 1 ? 16 : kVectorBytes) / static_cast<int64_t>(sizeof(T)));

template <class T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(sizeof(T) * kBlockSide<T>)));
};

// Of [p q] above [r s], squares of `distance` lanes, q and r change places.
template <int distance, class Vector, int... lane>
inline void exchange(Vector& upper, Vector& lower, std::integer_sequence<int, lane...>) {
  constexpr int side = sizeof...(lane);
  const Vector first =
      __builtin_shufflevector(upper, lower, (lane & distance ? side + lane - distance : lane)...);
  lower = __builtin_shufflevector(upper, lower, (lane & distance ? side : distance) + lane...);
  upper = first;
}

// First the quarters of the block, then those of its quarters, and so on.
template <class T, int distance>
inline void transpose_lanes(typename Lanes<T>::Vector (&rows)[kBlockSide<T>]) {
  if constexpr (distance > 0) {
    constexpr int side = kBlockSide<T>;
#pragma GCC unroll 32
    for (int i = 0; i < side; ++i)
      if (!(i & distance))
        exchange<distance>(rows[i], rows[i + distance], std::make_integer_sequence<int, side>());
    transpose_lanes<T, distance / 2>(rows);
  }
}

template <bool stream, class T>
inline void transpose_block(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int side = kBlockSide<T>;
  typename Lanes<T>::Vector rows[side];
#pragma GCC unroll 32
  for (int i = 0; i < side; ++i) std::memcpy(&rows[i], from + i * from_stride, sizeof(rows[i]));
  transpose_lanes<T, side / 2>(rows);
#pragma GCC unroll 32
  for (int i = 0; i < side; ++i) {
    if constexpr (stream)
      copy_streaming(reinterpret_cast<char*>(to + i * to_stride),
                     reinterpret_cast<const char*>(&rows[i]), sizeof(rows[i]));
    else
      std::memcpy(to + i * to_stride, &rows[i], sizeof(rows[i]));
  }
}

/// to[r][c] = from[c][r], for what is less than a block, and for elements of no vector.
template <class T>
inline void transpose_elements(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                               int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[r * to_stride + c] = from[c * from_stride + r];
}

/// The rows [0, rows) of the result.
template <bool stream, class T>
void transpose_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                    int64_t cols) {
  constexpr bool in_registers = std::is_integral_v<T>;
  constexpr int64_t side = in_registers ? kBlockSide<T> : 4;
  for (int64_t band = 0; band < cols; band += kBand) {
    const int64_t band_end = std::min(cols, band + kBand);
    for (int64_t r = 0; r < rows; r += side)
      for (int64_t c = band; c < band_end; c += side) {
        const T* const source = from + c * from_stride + r;
        T* const target = to + r * to_stride + c;
        const int64_t height = std::min(side, rows - r), width = std::min(side, band_end - c);
        if constexpr (in_registers)
          if (height == side && width == side) {
            transpose_block<stream>(source, from_stride, target, to_stride);
            continue;
          }
        transpose_elements(source, from_stride, target, to_stride, height, width);
      }
  }
  if constexpr (stream) finish_streaming();
}

/// to[r][c] = from[c][r]
template <class T>
void copy_transposed(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                     int64_t cols) {
  constexpr int64_t kRows = 64, kTaskElements = 32 * 1024;
  constexpr bool wide_rows = std::is_integral_v<T> && sizeof(T) > 1;
  constexpr auto unit = static_cast<int64_t>(kStreamUnit / sizeof(T));
  const bool stream = static_cast<size_t>(rows * cols) * sizeof(T) >= kStreamBytes &&
                      reinterpret_cast<uintptr_t>(to) % kStreamUnit == 0 && to_stride % unit == 0;
  parallel_for((rows + kRows - 1) / kRows, std::max<int64_t>(1, kTaskElements / (kRows * cols)),
               [&](int64_t first, int64_t last) {
                 const int64_t begin = first * kRows, end = std::min(rows, last * kRows);
                 const auto run = stream ? transpose_rows<wide_rows, T> : transpose_rows<false, T>;
                 run(from + begin, from_stride, to + begin * to_stride, to_stride, end - begin,
                     cols);
               });
}

}  // namespace tensora::cpu::TENSORA_ISA
