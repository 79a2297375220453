#pragma once

// Internal header
// The kernel behind few_rows; quant_rows_*.cu have its instances.

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_results.cuh"
#include "tensora/ops/quant/quant_tiles.cuh"

// Note [Few rows times quantized weights]
// With few rows of activations everything is reading the weights once. A block takes 16 rows of a
// weight; its warps share the chunks of these rows and have several in flight, which cp.async
// brings to shared memory as they are, whatever their alignment. There a warp turns them into
// operands of the tensor cores (Note [Numbers as operands]): 16 weight rows are the rows of a tile,
// activations its 8 columns. Products are exact and sums float32, so results differ from the
// definition's by the order of sums alone.
// A single row of activations leaves seven columns idle. So column n then holds its n-th group: of
// the product of group j with all columns, column j is taken, and every thread has the scales of
// two groups, instead of all threads those of all groups.
// Gated products take 8 rows of either matrix, which meet in one thread. The order of sums depends
// on k alone, except that one row of activations has another than two to eight.

namespace tensora::cuda {

inline constexpr int kRowsWarps = 8, kTileWeights = 16;

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
  int row_bytes, chunks;
};

template <class Tile>
__device__ inline void request_chunk(const RowsPlace& place, int chunk, char* stage) {
  using Shape = RowsShape<Tile>;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, c = static_cast<int>(threadIdx.x) % 4;
  const int at = chunk * Tile::kBytes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const char* from = place.rows[half] + at;
    int left = place.row_bytes - at;  // bytes of the row from here on; what follows becomes 0
    if constexpr (Tile::kAlign < 16) {
      const int lead = static_cast<int>(reinterpret_cast<uintptr_t>(from) & 15);
      from -= lead;
      left += lead;
    }
    const auto to =
        static_cast<unsigned>(__cvta_generic_to_shared(stage + (g + 8 * half) * Tile::kPitch));
#pragma unroll
    for (int i = 0; i < (Shape::kPieces + 3) / 4; ++i) {
      const int piece = c + 4 * i;
      if (piece >= Shape::kPieces) continue;
      const int bytes = min(max(left - 16 * piece, 0), 16);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + 16 * piece),
                   "l"(bytes > 0 ? from + 16 * piece : from), "r"(bytes));
    }
  }
}

// The activations of one group as the other operand.
template <class Tile>
__device__ inline void load_activations(const char* from, int c, bool inside,
                                        unsigned (&b)[RowsShape<Tile>::kWords]) {
#pragma unroll
  for (int i = 0; i < RowsShape<Tile>::kWords; ++i) b[i] = 0;
  if (!inside) return;
  if constexpr (Tile::kGroup == 16) {
    const auto words = __ldg(reinterpret_cast<const uint2*>(from + 8 * c));
    b[0] = words.x, b[1] = words.y;
  } else if constexpr (Tile::kOrder == Order::eight) {
    const auto words = __ldg(reinterpret_cast<const uint4*>(from + 16 * c));
    b[0] = words.x, b[1] = words.y, b[2] = words.z, b[3] = words.w;
  } else {
    const auto low = __ldg(reinterpret_cast<const uint2*>(from + 8 * c));
    const auto high = __ldg(reinterpret_cast<const uint2*>(from + 32 + 8 * c));
    if constexpr (Tile::kOrder == Order::halves) {
      b[0] = low.x, b[1] = low.y, b[2] = high.x, b[3] = high.y;
    } else {
      b[0] = __byte_perm(low.x, high.x, 0x5410);
      b[1] = __byte_perm(low.x, high.x, 0x7632);
      b[2] = __byte_perm(low.y, high.y, 0x5410);
      b[3] = __byte_perm(low.y, high.y, 0x7632);
    }
  }
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
template <int words>
__device__ inline void add_up(float (&sums)[4], const unsigned (&b)[words]) {
  constexpr unsigned kOnes = 0x3f803f80u;
  const unsigned ones[4] = {kOnes, kOnes, kOnes, kOnes};
#pragma unroll
  for (int i = 0; i < words; i += 2) multiply_add<BFloat16>(sums, ones, b[i], b[i + 1]);
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

// One row of activations: sums[half] is this thread's part of weight row g + 8 half.
template <class Tile>
__device__ inline void multiply_chunk_one(
    const char* const (&rows)[2], const unsigned* table,
    const unsigned (&b)[RowsShape<Tile>::kParts][RowsShape<Tile>::kWords], float (&sums)[2]) {
  using Shape = RowsShape<Tile>;
  const int c = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int part = 0; part < Shape::kParts; ++part) {
    const Factors low = factors_of<Tile>(rows[0], 4 * part + c);
    const Factors high = factors_of<Tile>(rows[1], 4 * part + c);
#pragma unroll
    for (int s = part * Shape::kPartSections; s < (part + 1) * Shape::kPartSections; ++s) {
      unsigned first[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      unsigned second[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      Tile::section(rows[0], c, s, table, first);
      Tile::section(rows[1], c, s, table, second);
#pragma unroll
      for (int i = 0; i < Tile::kSectionGroups; ++i) {
        const int column = Tile::group(s, i) % 8;
        float products[4] = {};
        multiply_group<Tile, Shape::kWords>(products, first[i], second[i], b[part]);
        if (c == column / 2) {
          sums[0] = fmaf(products[column % 2], low.scale[column % 2], sums[0]);
          sums[1] = fmaf(products[2 + column % 2], high.scale[column % 2], sums[1]);
        }
      }
    }
    if constexpr (!Tile::kCentred) {
      float total[4] = {};
      add_up(total, b[part]);
      sums[0] -= low.low[0] * total[0] + low.low[1] * total[1];
      sums[1] -= high.low[0] * total[0] + high.low[1] * total[1];
    }
  }
}

// Two to eight rows: sums is this thread's part of the tile, whose columns are rows of activations.
template <class Tile>
__device__ inline void multiply_chunk_few(const char* const (&rows)[2], const unsigned* table,
                                          const char* x, int k, bool inside, float (&sums)[4]) {
  using Shape = RowsShape<Tile>;
  const unsigned lane = threadIdx.x % 32;
  const int c = static_cast<int>(lane) % 4;
#pragma unroll
  for (int part = 0; part < Shape::kParts; ++part) {
    const Factors low = factors_of<Tile>(rows[0], 4 * part + c);
    const Factors high = factors_of<Tile>(rows[1], 4 * part + c);
#pragma unroll
    for (int s = part * Shape::kPartSections; s < (part + 1) * Shape::kPartSections; ++s) {
      unsigned first[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      unsigned second[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      Tile::section(rows[0], c, s, table, first);
      Tile::section(rows[1], c, s, table, second);
#pragma unroll
      for (int i = 0; i < Tile::kSectionGroups; ++i) {
        const int j = Tile::group(s, i);
        unsigned b[Shape::kWords];
        load_activations<Tile>(x + j * Tile::kGroup * 2, c,
                               inside && j * Tile::kGroup + Tile::kGroup / 4 * c < k, b);
        if constexpr (!Tile::kScaled) {
          multiply_group<Tile, Shape::kWords>(sums, first[i], second[i], b);
          if constexpr (!Tile::kCentred) {
            float total[4] = {};
            add_up(total, b);
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[e] -= Tile::kOffset * total[e];
          }
        } else {
          float products[4] = {}, total[4] = {};
          multiply_group<Tile, Shape::kWords>(products, first[i], second[i], b);
          if constexpr (!Tile::kCentred) add_up(total, b);
          const unsigned owner = (lane & ~3u) | static_cast<unsigned>(j % 8 / 2);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const Factors& f = e < 2 ? low : high;
            const float scale = __shfl_sync(kWholeWarp, f.scale[j % 2], owner);
            sums[e] = fmaf(products[e], scale, sums[e]);
            if constexpr (!Tile::kCentred)
              sums[e] -= __shfl_sync(kWholeWarp, f.low[j % 2], owner) * total[e];
          }
        }
      }
    }
  }
}

// The warps' sums brought together: sums[warp][row of activations][weight row].
__device__ inline void join_rows(const RowsCall& call, const RowsWeight& weight, int first,
                                 const float* sums) {
  const bool gated = call.gate != RowsCall::Gate::none;
  const int each = gated ? kTileWeights / 2 : kTileWeights;
  const int i = static_cast<int>(threadIdx.x) % each, row = static_cast<int>(threadIdx.x) / each;
  if (row >= call.rows || first + i >= weight.rows) return;
  float sum = 0, up = 0;
  for (int w = 0; w < kRowsWarps; ++w) {
    const float* const own = sums + (w * call.rows + row) * kTileWeights + i;
    sum += own[0];
    if (gated) up += own[kTileWeights / 2];
  }
  store_product(call, weight, row, first + i, sum, up);
}

template <class Tile, bool one>
__global__ void __launch_bounds__(kRowsWarps * 32, one ? Tile::kBlocks : 2)
    multiply_rows(const __grid_constant__ RowsCall call) {
  using Shape = RowsShape<Tile>;
  extern __shared__ __align__(128) char stages[];
  __shared__ float joined[kRowsWarps * kFewRows * kTileWeights];
  __shared__ unsigned table[Tile::kTable > 0 ? Tile::kTable : 1];
  begin_next();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, c = lane % 4;
  const RowsWeight& weight = call.weights[weight_of_tile(call, static_cast<int>(blockIdx.x))];
  const bool gated = call.gate != RowsCall::Gate::none;
  const int first = (static_cast<int>(blockIdx.x) - weight.first_tile) *
                    (gated ? kTileWeights / 2 : kTileWeights);
  RowsPlace place;
  place.row_bytes = static_cast<int>(weight.row_bytes);
  place.chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = min(first + g + (gated ? 0 : 8 * half), weight.rows - 1);
    place.rows[half] = (half == 1 && gated ? weight.up : weight.data) + row * weight.row_bytes;
  }
  // Chunks warp, warp + kRowsWarps, ...
  const int count = (place.chunks - warp + kRowsWarps - 1) / kRowsWarps;
  const int held = min((place.chunks + kRowsWarps - 1) / kRowsWarps, Tile::kStages);
  char* const own = stages + warp * held * Shape::kStageBytes;
  const auto request = [&](int i) {
    if (i < count)
      request_chunk<Tile>(place, warp + i * kRowsWarps,
                          own + i % Tile::kStages * Shape::kStageBytes);
    close_copies();
  };
#pragma unroll
  for (int i = 0; i < Tile::kStages; ++i) request(i);
  if constexpr (Tile::kTable > 0) {
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kTable; i += kRowsWarps * 32)
      table[i] = Tile::table_word(i);
    __syncthreads();
  }
  wait_for_previous();  // all but the weights may be its results
  float sums[one ? 2 : 4] = {};
  for (int i = 0; i < count; ++i) {
    const int chunk = warp + i * kRowsWarps, k = chunk * Tile::kChunk;
    [[maybe_unused]] unsigned b[Shape::kParts][Shape::kWords];
    if constexpr (one) {
#pragma unroll
      for (int part = 0; part < Shape::kParts; ++part) {
        const int at = k + (part * 8 + g) * Tile::kGroup;
        load_activations<Tile>(call.x + int64_t{at} * 2, c,
                               part * 8 + g < Shape::kGroups && at + Tile::kGroup / 4 * c < call.k,
                               b[part]);
      }
    }
    wait_for_copies<Tile::kStages - 1>();
    __syncwarp();
    const char* rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[half] = own + i % Tile::kStages * Shape::kStageBytes + (g + 8 * half) * Tile::kPitch;
      if constexpr (Tile::kAlign < 16)
        rows[half] += reinterpret_cast<uintptr_t>(place.rows[half] + chunk * Tile::kBytes) & 15;
    }
    if constexpr (one)
      multiply_chunk_one<Tile>(rows, table, b, sums);
    else
      multiply_chunk_few<Tile>(rows, table, call.x + (int64_t{g} * call.k + k) * 2, call.k - k,
                               g < call.rows, sums);
    __syncwarp();  // the stage is no longer read
    request(i + Tile::kStages);
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if constexpr (one) {
      sums[half] += __shfl_xor_sync(kWholeWarp, sums[half], 1);
      sums[half] += __shfl_xor_sync(kWholeWarp, sums[half], 2);
      if (c == 0) joined[warp * kTileWeights + g + 8 * half] = sums[half];
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (2 * c + i < call.rows)
          joined[(warp * call.rows + 2 * c + i) * kTileWeights + g + 8 * half] = sums[2 * half + i];
    }
  }
  __syncthreads();
  join_rows(call, weight, first, joined);
}

template <class Tile>
bool launch_rows(std::string_view op, int device, RowsCall call) {
  using Shape = RowsShape<Tile>;
  const bool gated = call.gate != RowsCall::Gate::none;
  const int each = gated ? kTileWeights / 2 : kTileWeights;
  int tiles = 0;
  for (int i = 0; i < call.count; ++i) {
    RowsWeight& weight = call.weights[i];
    const auto address = reinterpret_cast<uintptr_t>(weight.data) |
                         reinterpret_cast<uintptr_t>(weight.up) |
                         static_cast<uintptr_t>(weight.row_bytes);
    if (address % Tile::kAlign != 0) return false;
    weight.first_tile = tiles;
    tiles += (weight.rows + each - 1) / each;
  }
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  const int held = std::min((chunks + kRowsWarps - 1) / kRowsWarps, Tile::kStages);
  const auto run = [&](auto* kernel) {
    allow_shared_memory(device, reinterpret_cast<const void*>(kernel),
                        kRowsWarps * Tile::kStages * Shape::kStageBytes);
    Launch{op, device, static_cast<unsigned>(kRowsWarps * held * Shape::kStageBytes), true}(
        kernel, dim3(static_cast<unsigned>(tiles)), dim3(kRowsWarps * 32), call);
  };
  if (call.rows == 1)
    run(multiply_rows<Tile, true>);
  else
    run(multiply_rows<Tile, false>);
  return true;
}

}  // namespace tensora::cuda
