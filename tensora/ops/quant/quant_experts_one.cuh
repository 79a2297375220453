#pragma once

// Internal header
// The kernel for a single token's experts.

#include <type_traits>

#include "tensora/ops/quant/quant_experts_one.h"
#include "tensora/ops/quant/quant_one_row_bytes.cuh"

// Note [One token's experts]
// As in Note [One row times quantized weights], with weights that are found through the router's
// choice. The gate and up product of all chosen experts is one launch, whose tiles belong to one
// expert each; it stores its results times the router's weights. So the down product is one with
// rows as long as those of all chosen experts together: a tile's chunks come from one expert's
// matrix after the other. The router's kernel is the last before the first launch, which has to
// wait for it; the second one can begin early, because the first one lets it begin only when it has
// seen the end of the router's kernel.

namespace tensora::cuda {

struct ExpertPlace {
  RowsPlace rows;
  int first;         // row of the expert's matrix
  int64_t scale_at;  // of that row among all experts'
};

__device__ inline ExpertPlace expert_place(const ExpertsRow& call, int slot, int tile) {
  const RowsWeight& weight = call.row.weights[0];
  const bool gated = call.row.gate != RowsCall::Gate::none;
  const auto last = static_cast<long long>(call.experts - 1);
  const long long expert = max(0ll, min(call.chosen[slot], last));
  ExpertPlace place;
  place.first = tile * (gated ? kTileWeights / 2 : kTileWeights);
  place.scale_at = expert * weight.rows + place.first;
  const int left = weight.rows - place.first;
  const bool both = gated || left > 8;
  const int64_t at = place.scale_at * weight.row_bytes;
  place.rows.row_bytes = static_cast<int>(weight.row_bytes);
  place.rows.parts[0] = weight.data + at;
  place.rows.last[0] = min(left, 8) - 1;
  place.rows.parts[1] = gated  ? weight.up + at
                        : both ? place.rows.parts[0] + 8 * weight.row_bytes
                               : place.rows.parts[0];
  place.rows.last[1] = gated || !both ? place.rows.last[0] : min(left - 8, 8) - 1;
  return place;
}

/// The experts of a tile: one in gated products, else all.
struct SlotRange {
  int first, last, tile;
  __device__ SlotRange(const ExpertsRow& call, int number) {
    const bool gated = call.row.gate != RowsCall::Gate::none;
    first = gated ? number / call.each : 0;
    last = gated ? first + 1 : call.used;
    tile = gated ? number % call.each : number;
  }
};

/// The result that this lane stores of a tile, if n >= 0.
struct ExpertResult {
  int n = -1, slot = 0;
  float added = 0, share = 1;
  __device__ ExpertResult(const ExpertsRow& call, int number) {
    if (number >= call.row.tiles) return;
    const SlotRange range(call, number);
    const bool gated = call.row.gate != RowsCall::Gate::none;
    const int each = gated ? kTileWeights / 2 : kTileWeights;
    const int lane = static_cast<int>(threadIdx.x) % 32, own = range.tile * each + lane;
    if (lane >= each || own >= call.row.weights[0].rows) return;
    n = own;
    slot = range.first;
    if (gated)
      share = call.shares[slot];
    else
      added = residual_of(call.row, call.row.weights[0], 0, n);
  }
  __device__ void store(const ExpertsRow& call, float sum, float up) const {
    if (n < 0) return;
    if (call.row.gate != RowsCall::Gate::none) sum = activated(sum, call.row.gate) * up * share;
    store_number(call.row.out, call.row.out_dtype, int64_t{slot} * call.stride + n, sum + added);
  }
};

/// The copying warps' part.
template <class Tile>
__device__ inline void request_experts(const ExpertsRow& call, RowStages<Tile>& stages, int spans) {
  if (call.row.begins_late) wait_for_previous();  // for the router's choice
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < call.row.tiles;
       number += static_cast<int>(gridDim.x)) {
    const SlotRange range(call, number);
#pragma unroll 1
    for (int slot = range.first; slot < range.last; ++slot) {
      const RowsPlace place = expert_place(call, slot, range.tile).rows;
#pragma unroll 1
      for (int span = 0; span < spans; ++span, stages.advance())
        stages.request(place, span * OneRowShape<Tile>::kSpanBytes);
    }
  }
}

/// This thread's part of one expert's products with a tile's rows, added to `total`. x: the
/// activations of all, `padded` numbers; `before`: chunks of them in front of this expert's.
template <class Row>
__device__ inline void add_expert(const ExpertsRow& call, const ExpertPlace& at_expert,
                                  RowStages<typename Row::Tile>& stages, const unsigned* table,
                                  const char* x, int padded, int before, float (&total)[2]) {
  using Tile = typename Row::Tile;
  using Shape = OneRowShape<Tile>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  const int spans = (chunks + Shape::kWarps - 1) / Shape::kWarps;
  const bool gated = call.row.gate != RowsCall::Gate::none;
  const RowsPlace& place = at_expert.rows;
  const char* const of_lane[2] = {place.row(0, g), place.row(1, g)};
  float sums[2] = {};
#pragma unroll 1
  for (int span = 0; span < spans; ++span, stages.advance()) {
    const int chunk = span * Shape::kWarps + warp, at = span * Shape::kSpanBytes;
    char* const stage = stages.wait() + warp * Tile::kBytes;
    if (chunk < chunks) {
      if (call.k % Tile::kChunk != 0 && chunk == chunks - 1)
        clear_behind<Tile>(stage, place, at, place.row_bytes - chunk * Tile::kBytes);
      const char* rows[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        rows[half] = stage + (g + 8 * half) * Shape::kPitch + lead_of<Tile>(of_lane[half] + at);
      Row::multiply(x, padded, before + chunk, rows, table, sums);
    }
    stages.release();
  }
  const RowsWeight& weight = call.row.weights[0];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* const scales = gated && half == 1 ? weight.up_scale : weight.scale;
    const int row = g + (gated ? 0 : 8 * half);
    if (scales && at_expert.first + row < weight.rows)
      sums[half] *= scales[at_expert.scale_at + row];
    total[half] += sums[half];
  }
}

template <class Row>
__global__ void __launch_bounds__(kStepBound, 1)
    multiply_expert_row(const __grid_constant__ ExpertsRow call) {
  using Tile = typename Row::Tile;
  using Shape = OneRowShape<Tile>;
  extern __shared__ __align__(128) char shared[];
  __shared__ JoinedTiles<Shape> joined;
  __shared__ unsigned table[Tile::kTable > 0 ? Tile::kTable : 1];
  __shared__ typename RowStages<Tile>::Barriers barriers;
  if (!call.row.begins_late) begin_next();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  const int padded = (call.row.k + Tile::kChunk - 1) / Tile::kChunk * Tile::kChunk;
  const int first = static_cast<int>(blockIdx.x), stride = static_cast<int>(gridDim.x);
  const bool gated = call.row.gate != RowsCall::Gate::none;
  RowStages<Tile> stages(shared + Row::bytes(padded), barriers, call.row.stages);
  if (threadIdx.x == 0) stages.init();
  if constexpr (Tile::kTable > 0)
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kTable; i += Shape::kAllThreads)
      table[i] = Tile::table_word(i);
  __syncthreads();
  if (warp >= Shape::kWarps)
    return request_experts<Tile>(call, stages, (chunks + Shape::kWarps - 1) / Shape::kWarps);
  Row::template stage<Shape::kThreads>(call.row, padded, shared);
  wait_for_threads<Shape::kThreads>();
  int side = 0;
#pragma unroll 1
  for (int begin = first; begin < call.row.tiles; begin += Shape::kWarps * stride, side ^= 1) {
    // The tile that this warp finishes. What is added to it is read before the sum is there.
    const ExpertResult result(call, begin + warp * stride);
#pragma unroll 1
    for (int i = 0; i < Shape::kWarps && begin + i * stride < call.row.tiles; ++i) {
      const SlotRange range(call, begin + i * stride);
      float total[2] = {};
#pragma unroll 1
      for (int slot = range.first; slot < range.last; ++slot)
        add_expert<Row>(call, expert_place(call, slot, range.tile), stages, table, shared, padded,
                        gated ? 0 : slot * chunks, total);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        total[half] += __shfl_xor_sync(kWholeWarp, total[half], 1);
        total[half] += __shfl_xor_sync(kWholeWarp, total[half], 2);
        if (lane % 4 == 0) joined.parts[side][i][warp][lane / 4 + 8 * half] = total[half];
      }
    }
    wait_for_threads<Shape::kThreads>();
    float sum = 0, up = 0;
#pragma unroll
    for (const auto& part : joined.parts[side][warp]) {
      sum += part[lane % kTileWeights];
      up += part[(lane + kTileWeights / 2) % kTileWeights];
    }
    result.store(call, sum, up);
  }
}

template <class Row>
int expert_row_bytes(const ExpertsRow& call, int stages) {
  using Tile = typename Row::Tile;
  const int padded = (call.row.k + Tile::kChunk - 1) / Tile::kChunk * Tile::kChunk;
  return std::max(Row::bytes(padded) + stages * OneRowShape<Tile>::kStageBytes, kLeastBytes);
}

template <class Row>
bool fits_expert_row(const ExpertsRow& call) {
  return expert_row_bytes<Row>(call, 2) <= kMostBytes;
}

template <class Row>
void launch_expert_row(std::string_view op, int device, ExpertsRow call) {
  using Tile = typename Row::Tile;
  using Shape = OneRowShape<Tile>;
  const bool gated = call.row.gate != RowsCall::Gate::none;
  const int rows = gated ? kTileWeights / 2 : kTileWeights;
  call.each = (call.row.weights[0].rows + rows - 1) / rows;
  call.row.tiles = gated ? call.used * call.each : call.each;
  call.row.stages = Shape::kMostStages;
  while (call.row.stages > 2 && expert_row_bytes<Row>(call, call.row.stages) > kMostBytes)
    --call.row.stages;
  const int bytes = expert_row_bytes<Row>(call, call.row.stages);
  const int blocks = std::min(device_info(device).multiprocessors, call.row.tiles);
  const auto kernel = multiply_expert_row<Row>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kMostBytes);
  prefer_shared_memory(device, reinterpret_cast<const void*>(kernel), kStepSharedPercent);
  Launch{op, device, static_cast<unsigned>(bytes), true}(
      kernel, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kAllThreads), call);
}

/// T: of the activations.
template <class Tile, class T = BFloat16>
OneTokenExperts one_token_of() {
  using Row = std::conditional_t<std::is_same_v<Tile, TileHalf<T>>, RowAsFloats<Tile, T>,
                                 typename OneRowOf<Tile, T>::type>;
  return {.chunk = Tile::kChunk,
          .align = Tile::kAlign,
          .half = !is_bfloat16_type<T>,
          .fits = fits_expert_row<Row>,
          .launch = launch_expert_row<Row>};
}

}  // namespace tensora::cuda
