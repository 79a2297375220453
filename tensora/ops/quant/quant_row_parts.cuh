#pragma once

// Internal header
// What the kernels of one row and of several rows of activations share.

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_results.cuh"
#include "tensora/ops/quant/quant_tiles.cuh"

// Note [Few rows times quantized weights]
// With few rows of activations everything is reading the weights once. Several warps share the
// chunks of 16 rows of a weight, and each has several in flight, which cp.async brings to shared
// memory as they are, whatever their alignment. There a warp turns them into operands of the tensor
// cores (Note [Numbers as operands]): 16 weight rows are the rows of a tile, activations its 8
// columns. Products are exact and sums float32, so results differ from the definition's by the
// order of sums alone.
// Gated products take 8 rows of either matrix, which meet in one thread. The order of sums depends
// on the weights' sizes alone, except that one row of activations has another than several: see
// Note [One row times quantized weights].

namespace tensora::cuda {

inline constexpr int kTileWeights = 16;  // rows of a weight that are multiplied together

template <class Tile>
struct RowsShape {
  static constexpr int kGroups = Tile::kChunk / Tile::kGroup;  // of a chunk
  static constexpr int kParts = (kGroups + 7) / 8;             // of a chunk: eight groups each
  static constexpr int kPartSections = Tile::kSections / kParts;
  static constexpr int kWords = Tile::kGroup / 8;  // of a row's group, per thread
  static constexpr int kPieces =
      (Tile::kBytes + 15 + 16 - Tile::kAlign) / 16;  // of 16 bytes, where a chunk may lie
  static constexpr int kStageBytes = kTileWeights * Tile::kPitch;
  static_assert(kPieces * 16 <= Tile::kPitch && Tile::kPitch % 16 == 0);
};

// What a warp needs to find its 16 weight rows: thread (g, c) has rows g and g + 8.
struct RowsPlace {
  const char* rows[2];
  int row_bytes;
};

__device__ inline RowsPlace rows_of_tile(const RowsCall& call, int tile) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const RowsWeight& weight = call.weights[weight_of_tile(call, tile)];
  const bool gated = call.gate != RowsCall::Gate::none;
  const int first = (tile - weight.first_tile) * (gated ? kTileWeights / 2 : kTileWeights);
  RowsPlace place;
  place.row_bytes = static_cast<int>(weight.row_bytes);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = min(first + g + (gated ? 0 : 8 * half), weight.rows - 1);
    place.rows[half] = (half == 1 && gated ? weight.up : weight.data) + row * weight.row_bytes;
  }
  return place;
}

__device__ inline void copy_piece(unsigned to, const char* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

// Bytes in front of a chunk that share its first 16 bytes of memory.
template <class Tile>
__device__ inline int lead_of(const char* from) {
  return Tile::kAlign < 16 ? static_cast<int>(reinterpret_cast<uintptr_t>(from) & 15) : 0;
}

// A chunk that the row's end cuts off: what follows becomes 0.
template <class Tile>
__device__ inline void request_last_chunk(const char* from, int left, unsigned to, int c) {
#pragma unroll 1
  for (int piece = c; piece < RowsShape<Tile>::kPieces; piece += 4) {
    const int bytes = min(max(left - 16 * piece, 0), 16);
    copy_piece(to + 16 * piece, bytes > 0 ? from + 16 * piece : from, bytes);
  }
}

template <class Tile>
__device__ inline void request_chunk(const RowsPlace& place, int chunk, char* stage) {
  using Shape = RowsShape<Tile>;
  constexpr int kSure = (Tile::kBytes + 15) / 16;  // pieces that every chunk has
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, c = static_cast<int>(threadIdx.x) % 4;
  const int at = chunk * Tile::kBytes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const char* from = place.rows[half] + at;
    const int lead = lead_of<Tile>(from);
    from -= lead;
    const auto to =
        static_cast<unsigned>(__cvta_generic_to_shared(stage + (g + 8 * half) * Tile::kPitch));
    if (at + Tile::kBytes > place.row_bytes) {
      request_last_chunk<Tile>(from, place.row_bytes - at + lead, to, c);
      continue;
    }
#pragma unroll
    for (int i = 0; i < (Shape::kPieces + 3) / 4; ++i) {
      const bool wanted = 4 * i + 3 < kSure || 4 * i + c < kSure ||
                          (4 * i + c < Shape::kPieces && 64 * i + 16 * c < lead + Tile::kBytes);
      if (wanted) copy_chunk(to + 16 * c + 64 * i, from + 16 * c + 64 * i, true);
    }
  }
}

// The activations of one group as the other operand; zeros unless they are `inside`. `from` is
// readable in any case: a branch would part the lanes of a warp between its products.
template <class Tile>
__device__ inline void load_activations(const char* from, int c, bool inside,
                                        unsigned (&b)[RowsShape<Tile>::kWords]) {
  if constexpr (Tile::kGroup == 16) {
    const auto words = *reinterpret_cast<const uint2*>(from + 8 * c);
    b[0] = words.x, b[1] = words.y;
  } else if constexpr (Tile::kOrder == Order::eight) {
    const auto words = *reinterpret_cast<const uint4*>(from + 16 * c);
    b[0] = words.x, b[1] = words.y, b[2] = words.z, b[3] = words.w;
  } else {
    const auto low = *reinterpret_cast<const uint2*>(from + 8 * c);
    const auto high = *reinterpret_cast<const uint2*>(from + 32 + 8 * c);
    if constexpr (Tile::kOrder == Order::halves) {
      b[0] = low.x, b[1] = low.y, b[2] = high.x, b[3] = high.y;
    } else {
      b[0] = __byte_perm(low.x, high.x, 0x5410);
      b[1] = __byte_perm(low.x, high.x, 0x7632);
      b[2] = __byte_perm(low.y, high.y, 0x5410);
      b[3] = __byte_perm(low.y, high.y, 0x7632);
    }
  }
#pragma unroll
  for (unsigned& word : b) word = inside ? word : 0;
}

// sums += a group of 16 weight rows, held as words[row][term], times activations.
template <class Tile, int words>
__device__ inline void multiply_group(float (&sums)[4], const unsigned (&low)[Tile::kTerms][words],
                                      const unsigned (&high)[Tile::kTerms][words],
                                      const unsigned (&b)[words]) {
#pragma unroll
  for (int term = 0; term < Tile::kTerms; ++term)
#pragma unroll
    for (int i = 0; i < words; i += 2) {
      const unsigned a[4] = {low[term][i], high[term][i], low[term][i + 1], high[term][i + 1]};
      multiply_add<typename Tile::Element>(sums, a, b[i], b[i + 1]);
    }
}

// The sum of the activations in each column.
template <class T, int words>
__device__ inline void add_up(float (&sums)[4], const unsigned (&b)[words]) {
  constexpr unsigned kOnes = is_bfloat16_type<T> ? 0x3f803f80u : 0x3c003c00u;
  const unsigned ones[4] = {kOnes, kOnes, kOnes, kOnes};
#pragma unroll
  for (int i = 0; i < words; i += 2) multiply_add<T>(sums, ones, b[i], b[i + 1]);
}

template <class Tile>
__device__ inline Factors factors_of(const char* row, int pair) {
  if constexpr (Tile::kScaled)
    return Tile::factors(row, pair);
  else if constexpr (Tile::kCentred)
    return {{1, 1}, {}};
  else
    return {{1, 1}, {Tile::kOffset, Tile::kOffset}};
}

}  // namespace tensora::cuda
