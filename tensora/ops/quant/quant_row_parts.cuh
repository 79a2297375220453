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
// order of sums alone, except in Note [One row in whole numbers].
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

/// The 16 weight rows of a tile: eight of either part, which lie side by side.
struct RowsPlace {
  const char* parts[2];
  int last[2];  // row of a part that is there; all behind it stand for it
  int row_bytes;

  __device__ const char* row(int part, int i) const {
    // Chosen, not indexed: arrays that are indexed do not stay in registers.
    const int there = min(i, part == 0 ? last[0] : last[1]);
    return (part == 0 ? parts[0] : parts[1]) + int64_t{there} * row_bytes;
  }
};

__device__ inline RowsPlace rows_of_tile(const RowsCall& call, int tile) {
  const RowsWeight& weight = call.weights[weight_of_tile(call, tile)];
  const bool gated = call.gate != RowsCall::Gate::none;
  const int first = (tile - weight.first_tile) * (gated ? kTileWeights / 2 : kTileWeights);
  const int left = weight.rows - first;
  RowsPlace place;
  place.row_bytes = static_cast<int>(weight.row_bytes);
  place.parts[0] = weight.data + first * weight.row_bytes;
  place.last[0] = min(left, 8) - 1;
  const bool both = gated || left > 8;
  place.parts[1] = gated  ? weight.up + first * weight.row_bytes
                   : both ? place.parts[0] + 8 * weight.row_bytes
                          : place.parts[0];
  place.last[1] = gated || !both ? place.last[0] : min(left - 8, 8) - 1;
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

/// Requests one chunk of all 16 rows; what lies behind the rows' end becomes 0. Lanes that follow
/// each other take pieces of 16 bytes that follow each other: memory is read in sectors of 32
/// bytes, and a request for a part of one costs as much as for all of it.
template <class Tile>
__device__ inline void request_chunk(const RowsPlace& place, int chunk, char* stage) {
  constexpr int kPieces = RowsShape<Tile>::kPieces, kAll = kTileWeights * kPieces;
  const int at = chunk * Tile::kBytes;
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(stage));
#pragma unroll
  for (int i = 0; i < (kAll + 31) / 32; ++i) {
    const int number = static_cast<int>(threadIdx.x) % 32 + 32 * i;
    const int row = number / kPieces, piece = number % kPieces;
    const char* const from = place.row(row / 8, row % 8) + at;
    const int lead = lead_of<Tile>(from);
    if ((i < kAll / 32 || number < kAll) && 16 * piece < lead + Tile::kBytes) {
      const int bytes = min(max(place.row_bytes - at + lead - 16 * piece, 0), 16);
      copy_piece(to + static_cast<unsigned>(row * Tile::kPitch + 16 * piece),
                 from - lead + 16 * piece, bytes);
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
