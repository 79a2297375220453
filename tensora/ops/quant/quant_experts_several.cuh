#pragma once

// Internal header
// The kernel of a few rows per expert; quant_experts_several_*_early.cu have its instances.

#include "tensora/ops/quant/quant_experts_several.h"
#include "tensora/ops/quant/quant_several_rows.cuh"

// Note [A few rows per expert]
// With a few tokens an expert has two or three rows, and a product takes as long as reading the
// experts that were chosen. So the list of tiles (Note [Grouped expert products]) has tiles of four
// or eight rows, and a tile is multiplied as in Note [Several rows in whole numbers]. The thread
// blocks, one for each multiprocessor, share the tiles that have rows: each has one tile and a
// share of its expert's weight rows. They gather their activations themselves.

namespace tensora::cuda {

/// What a block multiplies: a tile, and every `share`-th tile of weight rows.
struct ExpertsShare {
  ExpertTile tile;
  int number, first, share;

  __device__ explicit ExpertsShare(const ExpertsSeveral& call) {
    int count = 0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % 32; i < call.most; i += 32)
      count += __ldcg(&call.tiles[i].rows) > 0 ? 1 : 0;
    count = __reduce_add_sync(~0u, count);
    const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
    number = block % count;
    first = block / count;
    share = (blocks - number + count - 1) / count;
    tile = {__ldcg(&call.tiles[number].expert), __ldcg(&call.tiles[number].rows)};
  }
};

template <class Format, int count>
__global__ void __launch_bounds__(kStepBound, 1)
    multiply_several_experts(const __grid_constant__ ExpertsSeveral call) {
  using Tile = typename Format::Tile;
  using Shape = SeveralShape<Format, count>;
  using One = typename Shape::One;
  using Rows = typename Shape::Rows;
  extern __shared__ __align__(128) char shared[];
  __shared__ typename RowStages<Tile>::Barriers barriers;
  __shared__ int sources[count];  // the row of x that becomes each row
  begin_next();
  const RowsCall& row = call.row;
  const RowsWeight& weight = row.weights[0];
  const int chunks = (row.k + Tile::kChunk - 1) / Tile::kChunk;
  RowStages<Tile> stages(shared + Rows::bytes(chunks), barriers, row.stages);
  if (threadIdx.x == 0) stages.init();
  __syncthreads();
  wait_for_previous();  // it made the list
  const ExpertsShare own(call);
  const int64_t before = int64_t{own.tile.expert} * weight.rows * weight.row_bytes;
  const auto place_of = [&](int tile) {
    RowsPlace place = rows_of_tile(row, tile);
    place.parts[0] += before;
    place.parts[1] += before;
    return place;
  };
  if (threadIdx.x >= One::kThreads) {
    copy_several<Format>(row.k, own.first, own.share, row.tiles, stages, place_of);
    return;
  }
  const int first_row = own.number * call.width;
  if (!call.place) {
    if (threadIdx.x < count) sources[threadIdx.x] = first_row + static_cast<int>(threadIdx.x);
  } else {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < call.pairs; i += One::kThreads) {
      const int at = __ldcg(call.place + i) - first_row;
      if (at >= 0 && at < call.width) sources[at] = i / call.used;
    }
  }
  wait_for_threads<One::kThreads>();
  const Rows x(shared, chunks);
  const auto row_of = [&](int i) { return row.x + int64_t{sources[i]} * row.k * 2; };
  x.template stage<One::kWarps>(row_of, own.tile.rows, row.k, chunks);
  const int each = row.gate != RowsCall::Gate::none ? kTileWeights / 2 : kTileWeights;
  const int first_scale = own.tile.expert * weight.rows;
  const auto finish = [&](int tile, int i, int place) {
    const int n = tile * each + place;
    const bool stores = i < own.tile.rows && place < each && n < weight.rows;
    return [&, i, n, stores](float sum, float up) {
      if (!stores) return;
      if (weight.scale) sum *= weight.scale[first_scale + n];
      if (row.gate != RowsCall::Gate::none) {
        if (weight.up_scale) up *= weight.up_scale[first_scale + n];
        sum = activated(sum, row.gate) * up;
      }
      store_number(row.out, row.out_dtype, int64_t{first_row + i} * row.columns + n, sum);
    };
  };
  multiply_several<Format, count>(x, row.k, own.first, own.share, row.tiles, stages, place_of,
                                  finish);
}

template <class Format, int count>
void launch_several_experts(std::string_view op, int device, ExpertsSeveral call) {
  using Tile = typename Format::Tile;
  using Shape = SeveralShape<Format, count>;
  const int chunks = (call.row.k + Tile::kChunk - 1) / Tile::kChunk;
  const int each = call.row.gate != RowsCall::Gate::none ? kTileWeights / 2 : kTileWeights;
  call.row.tiles = (call.row.weights[0].rows + each - 1) / each;
  call.row.stages = Shape::stages(chunks);
  const int bytes = Shape::Rows::bytes(chunks) + call.row.stages * Shape::One::kStageBytes;
  const auto kernel = multiply_several_experts<Format, count>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Shape::kMostDynamic);
  Launch{op, device, static_cast<unsigned>(std::max(bytes, kLeastBytes)), true}(
      kernel, dim3(static_cast<unsigned>(device_info(device).multiprocessors)),
      dim3(Shape::One::kAllThreads), call);
}

template <class Format>
SeveralExperts several_experts_of() {
  return {.align = Format::Tile::kAlign,
          .fits =
              [](int width, int k) {
                const int chunks = (k + Format::Tile::kChunk - 1) / Format::Tile::kChunk;
                return (width == 4 ? SeveralShape<Format, 4>::stages(chunks)
                                   : SeveralShape<Format, 8>::stages(chunks)) >= 2;
              },
          .launch =
              [](std::string_view op, int device, ExpertsSeveral call) {
                if (call.width == 4)
                  launch_several_experts<Format, 4>(op, device, call);
                else
                  launch_several_experts<Format, 8>(op, device, call);
              }};
}

}  // namespace tensora::cuda
