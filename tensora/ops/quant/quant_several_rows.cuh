#pragma once

// Internal header
// The kernel behind several_rows; quant_several_*_early.cu have its instances.

#include "tensora/backend/cuda/runtime/shared_memory.h"
#include "tensora/ops/quant/quant_several_formats.cuh"
#include "tensora/ops/quant/quant_several_rows.h"

// Note [Several rows in whole numbers]
// With two to eight rows of activations a product still takes as long as reading its weights, if
// unpacking them stays as cheap as it is for one row. So weights pass through the same stages of
// shared memory as in Note [One row times quantized weights] and become the same bytes, and each
// row of activations becomes high and low bytes (Note [One row in whole numbers]). A tile's eight
// columns are the high and the low bytes of four rows: thread (g, c) of a warp gets both sums of
// activation row c and weight rows g and g + 8, and needs no other thread's. Eight rows take two
// tiles of columns. Whole factors of groups are applied to whole sums, high and low apart, which
// fit into 32 bits for 256 numbers.

namespace tensora::cuda {

// ---- the kernel --------------------------------------------------------------------------------

template <class Format, int count>
struct SeveralShape {
  using Rows = ByteRows<count, Format::kSums>;
  using One = OneRowShape<typename Format::Tile>;
  /// Tiles whose parts meet at once: each thread has one result.
  static constexpr int kJoined = One::kThreads / (kTileWeights * count);
  static constexpr int kMostDynamic = 208 << 10;
  /// With so little dynamic shared memory a block of the next kernel fits beside this one's.
  static constexpr int kHalfDynamic = 95 << 10;
  /// Stages beside the activations; less than two: they do not fit.
  static int stages(int chunks) {
    constexpr int kEnough = 3;
    const int few = (kHalfDynamic - Rows::bytes(chunks)) / One::kStageBytes;
    const int many = (kMostDynamic - Rows::bytes(chunks)) / One::kStageBytes;
    return std::min(few >= kEnough ? few : many, One::kMostStages);
  }
};

/// The loops of a block: weight tiles `first`, first + stride, ... below `tiles`. place_of(tile):
/// its weight rows; finish(tile, row, place): reads what the result needs, and returns a function
/// of the sum and, gated, of that with the second matrix, which stores it.
template <class Format, int count, class PlaceOf, class Finish>
__device__ inline void multiply_several(const typename SeveralShape<Format, count>::Rows& x, int k,
                                        int first, int stride, int tiles,
                                        RowStages<typename Format::Tile>& stages,
                                        const PlaceOf& place_of, const Finish& finish) {
  using Tile = typename Format::Tile;
  using Shape = SeveralShape<Format, count>;
  using One = typename Shape::One;
  using Rows = typename Shape::Rows;
  __shared__ float joined[2][Shape::kJoined][One::kWarps][count][kTileWeights];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, c = lane % 4;
  const int chunks = (k + Tile::kChunk - 1) / Tile::kChunk;
  const int spans = (chunks + One::kWarps - 1) / One::kWarps;
  // The result that this thread finishes: a tile of those joined, a row of activations, a place.
  const int own_place = static_cast<int>(threadIdx.x) % kTileWeights;
  const int own_row = static_cast<int>(threadIdx.x) / kTileWeights % count;
  const int own_tile = static_cast<int>(threadIdx.x) / (kTileWeights * count);
  int side = 0;
#pragma unroll 1
  for (int begin = first; begin < tiles; begin += Shape::kJoined * stride, side ^= 1) {
    const auto store = finish(begin + own_tile * stride, own_row, own_place);
#pragma unroll 1
    for (int i = 0; i < Shape::kJoined && begin + i * stride < tiles; ++i) {
      const RowsPlace place = place_of(begin + i * stride);
      const char* const of_lane[2] = {place.row(0, g), place.row(1, g)};
      float sums[Rows::kTiles][2] = {};
#pragma unroll 1
      for (int span = 0; span < spans; ++span, stages.advance()) {
        const int chunk = span * One::kWarps + warp, at = span * One::kSpanBytes;
        char* const stage = stages.wait() + warp * Tile::kBytes;
        if (chunk < chunks) {
          if (k % Tile::kChunk != 0 && chunk == chunks - 1)
            clear_behind<Tile>(stage, place, at, place.row_bytes - chunk * Tile::kBytes);
          const char* rows[2];
#pragma unroll
          for (int half = 0; half < 2; ++half)
            rows[half] = stage + (g + 8 * half) * One::kPitch + lead_of<Tile>(of_lane[half] + at);
          Format::multiply(x, chunk, rows, sums);
        }
        stages.release();
      }
#pragma unroll
      for (int tile = 0; tile < Rows::kTiles; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          joined[side][i][warp][4 * tile + c][g + 8 * half] = sums[tile][half];
    }
    wait_for_threads<One::kThreads>();
    float sum = 0, up = 0;
#pragma unroll
    for (const auto& part : joined[side][own_tile]) {
      sum += part[own_row][own_place];
      up += part[own_row][(own_place + kTileWeights / 2) % kTileWeights];
    }
    store(sum, up);
  }
}

/// The same block's copying warps.
template <class Format, class PlaceOf>
__device__ inline void copy_several(int k, int first, int stride, int tiles,
                                    RowStages<typename Format::Tile>& stages,
                                    const PlaceOf& place_of) {
  using Tile = typename Format::Tile;
  using One = OneRowShape<Tile>;
  const int chunks = (k + Tile::kChunk - 1) / Tile::kChunk;
  const int spans = (chunks + One::kWarps - 1) / One::kWarps;
#pragma unroll 1
  for (int tile = first; tile < tiles; tile += stride) {
    const RowsPlace place = place_of(tile);
#pragma unroll 1
    for (int span = 0; span < spans; ++span, stages.advance())
      stages.request(place, span * One::kSpanBytes);
  }
}

template <class Format, int count>
__global__ void __launch_bounds__(kStepBound, 1)
    multiply_several_rows(const __grid_constant__ RowsCall call) {
  using Tile = typename Format::Tile;
  using Shape = SeveralShape<Format, count>;
  using One = typename Shape::One;
  using Rows = typename Shape::Rows;
  extern __shared__ __align__(128) char shared[];
  __shared__ typename RowStages<Tile>::Barriers barriers;
  begin_next();
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  const int first = static_cast<int>(blockIdx.x), stride = static_cast<int>(gridDim.x);
  RowStages<Tile> stages(shared + Rows::bytes(chunks), barriers, call.stages);
  if (threadIdx.x == 0) stages.init();
  __syncthreads();
  const auto place_of = [&](int tile) { return rows_of_tile(call, tile); };
  if (threadIdx.x >= One::kThreads) {
    copy_several<Format>(call.k, first, stride, call.tiles, stages, place_of);
    return;
  }
  const Rows x(shared, chunks);
  wait_for_previous();
  const auto row_of = [&](int row) { return call.x + int64_t{row} * call.k * 2; };
  x.template stage<One::kWarps>(row_of, call.rows, call.k, chunks);
  const int each = call.gate != RowsCall::Gate::none ? kTileWeights / 2 : kTileWeights;
  const auto finish = [&](int tile, int row, int place) {
    const RowsWeight& weight = call.weights[weight_of_tile(call, min(tile, call.tiles - 1))];
    const int n = (tile - weight.first_tile) * each + place;
    const bool stores = tile < call.tiles && row < call.rows && place < each && n < weight.rows;
    // What is added is read before the sum is there.
    const float residual = stores ? residual_of(call, weight, row, n) : 0.0f;
    return [&call, &weight, row, n, stores, residual](float sum, float up) {
      if (stores) store_product(call, weight, row, n, sum, up, residual);
    };
  };
  multiply_several<Format, count>(x, call.k, first, stride, call.tiles, stages, place_of, finish);
}

template <class Format, int count>
bool launch_several(std::string_view op, int device, RowsCall call) {
  using Tile = typename Format::Tile;
  using Shape = SeveralShape<Format, count>;
  using One = typename Shape::One;
  const bool gated = call.gate != RowsCall::Gate::none;
  const int each = gated ? kTileWeights / 2 : kTileWeights;
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  call.stages = Shape::stages(chunks);
  if (call.stages < 2) return false;
  call.tiles = 0;
  for (int i = 0; i < call.count; ++i) {
    RowsWeight& weight = call.weights[i];
    const auto address = reinterpret_cast<uintptr_t>(weight.data) |
                         reinterpret_cast<uintptr_t>(weight.up) |
                         static_cast<uintptr_t>(weight.row_bytes);
    if (address % Tile::kAlign != 0) return false;
    weight.first_tile = call.tiles;
    call.tiles += (weight.rows + each - 1) / each;
  }
  const int blocks = std::min(device_info(device).multiprocessors, call.tiles);
  const int bytes = Shape::Rows::bytes(chunks) + call.stages * One::kStageBytes;
  const auto kernel = multiply_several_rows<Format, count>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Shape::kMostDynamic);
  Launch{op, device, static_cast<unsigned>(std::max(bytes, kLeastBytes)), true}(
      kernel, dim3(static_cast<unsigned>(blocks)), dim3(One::kAllThreads), call);
  return true;
}

template <class Format>
bool several_of(std::string_view op, int device, const RowsCall& call) {
  return call.rows <= 4 ? launch_several<Format, 4>(op, device, call)
                        : launch_several<Format, 8>(op, device, call);
}

}  // namespace tensora::cuda
