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
// on the weights' sizes alone, except that one row of activations has another than several.

namespace tensora::cuda {

inline constexpr int kMostWarps = 8, kTileWeights = 16;

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

// A group's activations, held by four lanes, as float16 times a power of two; returns its inverse.
template <int words>
__device__ inline float normalise_group(unsigned (&b)[words]) {
  unsigned most = 0;  // the largest magnitude, as bfloat16 in the high half
#pragma unroll
  for (const unsigned word : b) {
    const unsigned bits = word & 0x7fff7fffu;
    most = max(most, max(bits, bits << 16));
  }
  most = max(most, __shfl_xor_sync(kWholeWarp, most, 1));
  most = max(most, __shfl_xor_sync(kWholeWarp, most, 2));
  // Brought to between 2^14 and 2^15; what is below 2^-113 counts as 0.
  const unsigned exponent = max(most >> 23, 14u);
  const float factor = __builtin_bit_cast(float, (268 - exponent) << 23);
#pragma unroll
  for (unsigned& word : b)
    word = round_pair<Half>(__builtin_bit_cast(float, word << 16) * factor,
                            __builtin_bit_cast(float, word & 0xffff0000u) * factor);
  return __builtin_bit_cast(float, (exponent - 14) << 23);
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

// One row of activations: sums[half] is this thread's part of weight row g + 8 half.
template <class Tile>
__device__ inline void multiply_chunk_one(
    const char* const (&rows)[2], const unsigned* table,
    unsigned (&b)[RowsShape<Tile>::kParts][RowsShape<Tile>::kWords], float (&sums)[2]) {
  using Shape = RowsShape<Tile>;
  const int c = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int part = 0; part < Shape::kParts; ++part) {
    Factors low = factors_of<Tile>(rows[0], 4 * part + c);
    Factors high = factors_of<Tile>(rows[1], 4 * part + c);
    if constexpr (Tile::kNormalised) {
      const float inverse = normalise_group(b[part]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float own = __shfl_sync(kWholeWarp, inverse, 8 * c + 4 * i);
        low.scale[i] *= own, low.low[i] *= own;
        high.scale[i] *= own, high.low[i] *= own;
      }
    }
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
      add_up<typename Tile::Element>(total, b[part]);
      sums[0] -= low.low[0] * total[0] + low.low[1] * total[1];
      sums[1] -= high.low[0] * total[0] + high.low[1] * total[1];
    }
  }
}

// Two rows and more: sums is this thread's part of `tiles` tiles, whose columns are rows of
// activations. x: those of column g of the first tile; `columns` are left from there on, and k
// numbers of each.
template <class Tile, int tiles>
__device__ inline void multiply_chunk_few(const char* const (&rows)[2], const unsigned* table,
                                          const char* x, int64_t tile_bytes, int k, int columns,
                                          float (&sums)[tiles][4]) {
  using Shape = RowsShape<Tile>;
  // Several tiles are enough independent work, and one loop's body to compile.
  constexpr int kUnrolled = tiles > 1 ? 1 : Shape::kPartSections;
  const unsigned lane = threadIdx.x % 32;
  const int c = static_cast<int>(lane) % 4;
#pragma unroll
  for (int part = 0; part < Shape::kParts; ++part) {
    const Factors low = factors_of<Tile>(rows[0], 4 * part + c);
    const Factors high = factors_of<Tile>(rows[1], 4 * part + c);
#pragma unroll kUnrolled
    for (int s = part * Shape::kPartSections; s < (part + 1) * Shape::kPartSections; ++s) {
      unsigned first[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      unsigned second[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      Tile::section(rows[0], c, s, table, first);
      Tile::section(rows[1], c, s, table, second);
#pragma unroll
      for (int i = 0; i < Tile::kSectionGroups; ++i) {
        const int j = Tile::group(s, i);
        const unsigned owner = (lane & ~3u) | static_cast<unsigned>(j % 8 / 2);
        float scale[2] = {1, 1}, offset[2] = {};
        if constexpr (Tile::kScaled) {
          scale[0] = __shfl_sync(kWholeWarp, j % 2 ? low.scale[1] : low.scale[0], owner);
          scale[1] = __shfl_sync(kWholeWarp, j % 2 ? high.scale[1] : high.scale[0], owner);
          if constexpr (!Tile::kCentred) {
            offset[0] = __shfl_sync(kWholeWarp, j % 2 ? low.low[1] : low.low[0], owner);
            offset[1] = __shfl_sync(kWholeWarp, j % 2 ? high.low[1] : high.low[0], owner);
          }
        } else if constexpr (!Tile::kCentred) {
          offset[0] = offset[1] = Tile::kOffset;
        }
        const bool inside = j * Tile::kGroup + Tile::kGroup / 4 * c < k;
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
          unsigned b[Shape::kWords];
          load_activations<Tile>(x + t * tile_bytes + j * Tile::kGroup * 2, c,
                                 inside && 8 * t < columns, b);
          float products[4] = {}, total[4] = {};
          multiply_group<Tile, Shape::kWords>(products, first[i], second[i], b);
          if constexpr (!Tile::kCentred) add_up<typename Tile::Element>(total, b);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sums[t][e] = fmaf(products[e], scale[e / 2], sums[t][e]);
            if constexpr (!Tile::kCentred) sums[t][e] -= offset[e / 2] * total[e];
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
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int i = static_cast<int>(threadIdx.x) % each;
  if (first + i >= weight.rows) return;
  for (int row = static_cast<int>(threadIdx.x) / each; row < call.rows;
       row += static_cast<int>(blockDim.x) / each) {
    float sum = 0, up = 0;
#pragma unroll 1
    for (int w = 0; w < warps; ++w) {
      const float* const own = sums + (w * call.rows + row) * kTileWeights + i;
      sum += own[0];
      if (gated) up += own[kTileWeights / 2];
    }
    store_product(call, weight, row, first + i, sum, up);
  }
}

// tiles: of eight rows of activations; 0: a single row.
template <class Tile, int tiles>
__global__ void __launch_bounds__(kMostWarps * 32, tiles == 0   ? Tile::kBlocks
                                                   : tiles == 1 ? 2
                                                                : 1)
    multiply_rows(const __grid_constant__ RowsCall call) {
  using Shape = RowsShape<Tile>;
  constexpr bool one = tiles == 0;
  extern __shared__ __align__(128) char stages[];
  __shared__ float joined[kMostWarps * (one ? 1 : 8 * tiles) * kTileWeights];
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
  // Chunks warp, warp + warps, ...
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int held = min((place.chunks + warps - 1) / warps, Tile::kStages);
  char* const own = stages + warp * held * Shape::kStageBytes;
  int requested = warp;
#pragma unroll
  for (int i = 0; i < Tile::kStages; ++i, requested += warps) {
    if (requested < place.chunks)
      request_chunk<Tile>(place, requested, own + i * Shape::kStageBytes);
    close_copies();
  }
  if constexpr (Tile::kTable > 0) {
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kTable; i += static_cast<int>(blockDim.x))
      table[i] = Tile::table_word(i);
    __syncthreads();
  }
  wait_for_previous();  // all but the weights may be its results
  float sums[one ? 1 : tiles][one ? 2 : 4] = {};
  char* stage = own;
  for (int chunk = warp; chunk < place.chunks; chunk += warps) {
    const int k = chunk * Tile::kChunk;
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
    for (int half = 0; half < 2; ++half)
      rows[half] = stage + (g + 8 * half) * Tile::kPitch +
                   lead_of<Tile>(place.rows[half] + chunk * Tile::kBytes);
    if constexpr (one)
      multiply_chunk_one<Tile>(rows, table, b, sums[0]);
    else
      multiply_chunk_few<Tile, tiles>(rows, table, call.x + (int64_t{g} * call.k + k) * 2,
                                      int64_t{16} * call.k, call.k - k, call.rows - g, sums);
    __syncwarp();  // the stage is no longer read
    if (requested < place.chunks) request_chunk<Tile>(place, requested, stage);
    close_copies();
    requested += warps;
    stage += Shape::kStageBytes;
    if (stage == own + Tile::kStages * Shape::kStageBytes) stage = own;
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if constexpr (one) {
      sums[0][half] += __shfl_xor_sync(kWholeWarp, sums[0][half], 1);
      sums[0][half] += __shfl_xor_sync(kWholeWarp, sums[0][half], 2);
      if (c == 0) joined[warp * kTileWeights + g + 8 * half] = sums[0][half];
    } else {
#pragma unroll
      for (int i = 0; i < 2 * tiles; ++i) {
        const int row = i / 2 * 8 + 2 * c + i % 2;
        if (row < call.rows)
          joined[(warp * call.rows + row) * kTileWeights + g + 8 * half] =
              sums[i / 2][2 * half + i % 2];
      }
    }
  }
  __syncthreads();
  join_rows(call, weight, first, joined);
}

/// How many warps share a tile: each is to have about four chunks, because beginning and ending
/// cost as much as two, but the device is to be filled.
template <class Tile>
int warps_for(int tiles, int chunks) {
  constexpr int kEnough = 2400;
  // So that blocks of the next kernel find room beside those of this one.
  constexpr int kMostBytes = 76 << 10;
  const auto bytes = [&](int warps) {
    return warps * std::min((chunks + warps - 1) / warps, Tile::kStages) *
           RowsShape<Tile>::kStageBytes;
  };
  int warps = 1;
  while (warps < kMostWarps && warps < chunks && (4 * warps < chunks || tiles * warps < kEnough) &&
         bytes(2 * warps) <= kMostBytes)
    warps *= 2;
  return warps;
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
  const int warps = warps_for<Tile>(tiles, chunks);
  const int held = std::min((chunks + warps - 1) / warps, Tile::kStages);
  const auto run = [&](auto* kernel) {
    allow_shared_memory(device, reinterpret_cast<const void*>(kernel),
                        kMostWarps * Tile::kStages * Shape::kStageBytes);
    Launch{op, device, static_cast<unsigned>(warps * held * Shape::kStageBytes), true}(
        kernel, dim3(static_cast<unsigned>(tiles)), dim3(static_cast<unsigned>(warps * 32)), call);
  };
  if (call.rows == 1)
    run(multiply_rows<typename OneRowTile<Tile>::type, 0>);
  else if (call.rows <= 8)
    run(multiply_rows<Tile, 1>);
  else
    run(multiply_rows<Tile, kFewRows / 8>);
  return true;
}

}  // namespace tensora::cuda
