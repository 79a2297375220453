#pragma once

// Internal header
// The kernel behind few_rows for several rows of activations; quant_rows_*.cu have its instances
// and those of one row. See Note [Few rows times quantized weights].

#include <type_traits>

#include "tensora/ops/quant/quant_one_row_bytes.cuh"
#include "tensora/ops/quant/quant_one_row_plain.cuh"
#include "tensora/ops/quant/quant_row_parts.cuh"

namespace tensora::cuda {

inline constexpr int kMostWarps = 8;

// Two rows and more: sums is this thread's part of `tiles` tiles, whose columns are rows of
// activations. x: those of column g of the first tile; `columns` are left from there on, and k
// numbers of each. safe: activations that are there.
template <class Tile, int tiles>
__device__ inline void multiply_chunk_few(const char* const (&rows)[2], const unsigned* table,
                                          const char* x, const char* safe, int64_t tile_bytes,
                                          int k, int columns, float (&sums)[tiles][4]) {
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
        const unsigned owner = (lane & ~3u) | static_cast<unsigned>(j % 8 / 2);
        float scale[2] = {1, 1}, offset[2] = {};
        if constexpr (Tile::kScaled) {
          scale[0] = __shfl_sync(kWholeWarp, low.scale[j % 2], owner);
          scale[1] = __shfl_sync(kWholeWarp, high.scale[j % 2], owner);
          if constexpr (!Tile::kCentred) {
            offset[0] = __shfl_sync(kWholeWarp, low.low[j % 2], owner);
            offset[1] = __shfl_sync(kWholeWarp, high.low[j % 2], owner);
          }
        } else if constexpr (!Tile::kCentred) {
          offset[0] = offset[1] = Tile::kOffset;
        }
        const bool inside = j * Tile::kGroup + Tile::kGroup / 4 * c < k;
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
          unsigned b[Shape::kWords];
          const bool there = inside && 8 * t < columns;
          load_activations<Tile>(there ? x + t * tile_bytes + j * Tile::kGroup * 2 : safe,
                                 there ? c : 0, there, b);
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
    store_product(call, weight, row, first + i, sum, up, residual_of(call, weight, row, first + i));
  }
}

// tiles: of eight rows of activations.
template <class Tile, int tiles>
__global__ void __launch_bounds__(kMostWarps * 32, tiles == 1 ? 2 : 1)
    multiply_rows(const __grid_constant__ RowsCall call) {
  using Shape = RowsShape<Tile>;
  extern __shared__ __align__(128) char stages[];
  __shared__ float joined[kMostWarps * 8 * tiles * kTileWeights];
  __shared__ unsigned table[Tile::kTable > 0 ? Tile::kTable : 1];
  begin_next();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, c = lane % 4;
  const RowsWeight& weight = call.weights[weight_of_tile(call, static_cast<int>(blockIdx.x))];
  const int first = (static_cast<int>(blockIdx.x) - weight.first_tile) *
                    (call.gate != RowsCall::Gate::none ? kTileWeights / 2 : kTileWeights);
  const RowsPlace place = rows_of_tile(call, static_cast<int>(blockIdx.x));
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  // Chunks warp, warp + warps, ...
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int held = min((chunks + warps - 1) / warps, Tile::kStages);
  char* const own = stages + warp * held * Shape::kStageBytes;
  int requested = warp;
#pragma unroll
  for (int i = 0; i < Tile::kStages; ++i, requested += warps) {
    if (requested < chunks) request_chunk<Tile>(place, requested, own + i * Shape::kStageBytes);
    close_copies();
  }
  if constexpr (Tile::kTable > 0) {
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kTable; i += static_cast<int>(blockDim.x))
      table[i] = Tile::table_word(i);
    __syncthreads();
  }
  wait_for_previous();  // all but the weights may be its results
  float sums[tiles][4] = {};
  char* stage = own;
  for (int chunk = warp; chunk < chunks; chunk += warps) {
    const int k = chunk * Tile::kChunk;
    wait_for_copies<Tile::kStages - 1>();
    __syncwarp();
    const char* rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      rows[half] = stage + (g + 8 * half) * Tile::kPitch +
                   lead_of<Tile>(place.row(half, g) + chunk * Tile::kBytes);
    multiply_chunk_few<Tile, tiles>(rows, table, call.x + (int64_t{g} * call.k + k) * 2, call.x,
                                    int64_t{16} * call.k, call.k - k, call.rows - g, sums);
    __syncwarp();  // the stage is no longer read
    if (requested < chunks) request_chunk<Tile>(place, requested, stage);
    close_copies();
    requested += warps;
    stage += Shape::kStageBytes;
    if (stage == own + Tile::kStages * Shape::kStageBytes) stage = own;
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 2 * tiles; ++i) {
      const int row = i / 2 * 8 + 2 * c + i % 2;
      if (row < call.rows)
        joined[(warp * call.rows + row) * kTileWeights + g + 8 * half] =
            sums[i / 2][2 * half + i % 2];
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

/// T: of the activations.
template <class Tile, class T = BFloat16>
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
  call.tiles = tiles;
  if (call.rows == 1) {
    if constexpr (std::is_same_v<Tile, TileHalf<T>>)
      launch_plain_row<T>(op, device, call);
    else
      launch_one_row<typename OneRowOf<Tile, T>::type>(op, device, call);
    return true;
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
  if (call.rows <= 8)
    run(multiply_rows<Tile, 1>);
  else
    run(multiply_rows<Tile, kFewRows / 8>);
  return true;
}

}  // namespace tensora::cuda
