#pragma once

// Internal header, for sources called *_sm90a.cu
// Products of many rows per expert. See Note [Many rows per expert].

#include <algorithm>

#include "tensora/backend/cuda/runtime/shared_memory.h"
#include "tensora/ops/quant/quant_experts_many.h"
#include "tensora/ops/quant/quant_experts_unpack.cuh"

// Note [Many rows per expert]
// A block multiplies 192 weight rows by a tile of up to 192 rows of activations. Three warpgroups
// have 64 weight rows each: they unpack them into registers, a group at a time, as 16-bit numbers
// with their scales, while the tensor cores multiply the group before (wgmma: the weights from
// registers, the activations from shared memory). A fourth warpgroup, which leaves them most of its
// registers, copies: packed weights in pieces of 16 bytes, and activations, which lie in memory as
// the tensor cores want them, by the panel.

namespace tensora::cuda {

template <class Tile>
struct ManyShape {
  static constexpr int kGroups = 3, kWarps = kGroups * 4, kThreads = kWarps * 32;
  static constexpr int kCopyThreads = 128, kAllThreads = kThreads + kCopyThreads;
  static constexpr int kRows = kGroups * 64;      // of weights in a block
  static constexpr int kWidth = kManyExpertRows;  // of activations
  static constexpr int kStep = 128;               // numbers of activations in a stage
  static constexpr int kPanelBytes = kWidth * 128, kStepBytes = kStep / kPanel * kPanelBytes;
  static constexpr int kHalves = Tile::kChunk / kStep;
  static constexpr int kChunkBytes = kRows * Tile::kPitch;
  static constexpr int kChunks = 2;  // stages of weights
  static constexpr int kMost = 225 << 10;
  static constexpr int kSteps = std::clamp((kMost - kChunks * kChunkBytes) / kStepBytes, 2, 4);
  static constexpr int kBytes = kSteps * kStepBytes + kChunks * kChunkBytes + 1024;
  static_assert(kBytes <= 227 << 10);
};

/// The weight rows of a block, and what it multiplies them by.
struct ManyPlace {
  const char* weight;  // of the tile's expert
  const char* up;
  int expert, rows, tile;  // rows: of activations
  int first;               // row of the expert's matrix; gated products have half as many
  int chunk, last;         // of the rows' chunks
  int split;

  /// Row r of a block's rows; those behind the matrix stand for its last one.
  __device__ const char* row(const ExpertsProduct& call, int r) const {
    const bool gated = call.gate != RowsCall::Gate::none;
    const int n = gated ? first + r / 16 * 8 + r % 8 : first + r;
    const char* const from = gated && r % 16 >= 8 ? up : weight;
    return from + int64_t{min(n, call.rows - 1)} * call.row_bytes;
  }
};

template <class Tile>
__device__ inline ManyPlace many_place(const ExpertsProduct& call) {
  using Shape = ManyShape<Tile>;
  const int number = static_cast<int>(blockIdx.x);
  const int each = call.gate != RowsCall::Gate::none ? Shape::kRows / 2 : Shape::kRows;
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  ManyPlace place;
  // The tiles of an expert follow one another: they find its weights in the cache.
  place.tile = number % call.most;
  place.split = number / call.most % call.splits;
  place.first = number / call.most / call.splits * each;
  const ExpertTile tile = call.tiles[place.tile];
  place.expert = tile.expert;
  place.rows = tile.rows;
  place.chunk = chunks * place.split / call.splits;
  place.last = chunks * (place.split + 1) / call.splits;
  const int64_t before = int64_t{tile.expert} * call.rows * call.row_bytes;
  place.weight = call.weight + before;
  place.up = call.up ? call.up + before : nullptr;
  return place;
}

/// The stages of a block, as one of its warps goes through them.
template <class Tile>
struct ManyStages {
  using Shape = ManyShape<Tile>;
  struct Barriers {
    uint64_t chunk_full[Shape::kChunks], chunk_empty[Shape::kChunks];
    uint64_t step_full[Shape::kSteps], step_empty[Shape::kSteps];
  };
  char *steps, *chunks;  // in shared memory
  unsigned barriers;
  int chunk = 0, step = 0;
  unsigned chunk_parity = 0, step_parity = 0;

  __device__ ManyStages(char* shared, const Barriers& all)
      : steps(shared),
        chunks(shared + Shape::kSteps * Shape::kStepBytes),
        barriers(static_cast<unsigned>(__cvta_generic_to_shared(&all))) {}
  __device__ void init() const {
#pragma unroll
    for (int i = 0; i < Shape::kChunks; ++i) {
      init_barrier(chunk_full(i), Shape::kCopyThreads);
      init_barrier(chunk_empty(i), Shape::kWarps);
    }
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i) {
      init_barrier(step_full(i), 1);
      init_barrier(step_empty(i), Shape::kWarps);
    }
    fence_barriers();
  }
  __device__ unsigned at(int i) const { return barriers + 8 * static_cast<unsigned>(i); }
  __device__ unsigned chunk_full(int i) const { return at(i); }
  __device__ unsigned chunk_empty(int i) const { return at(Shape::kChunks + i); }
  __device__ unsigned step_full(int i) const { return at(2 * Shape::kChunks + i); }
  __device__ unsigned step_empty(int i) const { return at(2 * Shape::kChunks + Shape::kSteps + i); }
  __device__ unsigned step_address() const {
    return static_cast<unsigned>(__cvta_generic_to_shared(steps + step * Shape::kStepBytes));
  }
  __device__ void next_chunk() {
    if (++chunk == Shape::kChunks) chunk = 0, chunk_parity ^= 1;
  }
  __device__ void next_step() {
    if (++step == Shape::kSteps) step = 0, step_parity ^= 1;
  }

  /// By the copying warps: one chunk of all weight rows; what lies behind their end becomes 0.
  __device__ void request_chunk(const ExpertsProduct& call, const ManyPlace& place, int number) {
    constexpr int kPieces = RowsShape<Tile>::kPieces, kAll = Shape::kRows * kPieces;
    wait_for_barrier(chunk_empty(chunk), chunk_parity ^ 1);
    const int64_t at = int64_t{number} * Tile::kBytes;
    const auto to =
        static_cast<unsigned>(__cvta_generic_to_shared(chunks + chunk * Shape::kChunkBytes));
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) - Shape::kThreads; i < kAll;
         i += Shape::kCopyThreads) {
      const int row = i / kPieces, piece = i % kPieces;
      const char* const from = place.row(call, row) + at;
      const int lead = lead_of<Tile>(from);
      if (16 * piece >= lead + Tile::kBytes) continue;
      const auto left = static_cast<int>(call.row_bytes - at) + lead - 16 * piece;
      copy_piece(to + static_cast<unsigned>(row * Tile::kPitch + 16 * piece),
                 from - lead + 16 * piece, min(max(left, 0), 16));
    }
    arrive_after_copies(chunk_full(chunk));
    next_chunk();
  }
  /// Two panels of activations.
  __device__ void request_step(const char* panels, int rows) {
    wait_for_barrier(step_empty(step), step_parity ^ 1);
    if (threadIdx.x == Shape::kThreads) {
      const auto bytes = static_cast<unsigned>(rows) * 128;
      const unsigned to = step_address();
      expect_bytes(step_full(step), 2 * bytes);
      copy_run(to, panels, bytes, step_full(step));
      copy_run(to + Shape::kPanelBytes, panels + Shape::kPanelBytes, bytes, step_full(step));
    }
    next_step();
  }
};

/// Queues the products of group j, unpacked, with 64 * `count` rows of activations.
template <class Tile, int count>
__device__ inline void add_group(float (&sums)[count][32],
                                 const unsigned (&a)[kGroupProducts<Tile>][4], int j, uint64_t b) {
  using Shape = ManyShape<Tile>;
  hopper::fence_registers();
#pragma unroll
  for (int step = 0; step < kGroupProducts<Tile>; ++step) {
    const int k = (j * Tile::kGroup + step * 16) % Shape::kStep;
    const uint64_t from =
        b + static_cast<unsigned>(k / kPanel * Shape::kPanelBytes + k % kPanel * 2) / 16;
#pragma unroll
    for (int t = 0; t < count; ++t)
      add_columns<typename Tile::Element>(sums[t], a[step],
                                          from + static_cast<unsigned>(t * 64 * 128 / 16));
  }
  hopper::close_products();
}

/// Multiplies this warpgroup's 64 weight rows by 64 * `count` rows of activations.
template <class Tile, int count>
__device__ inline void multiply_many(const ExpertsProduct& call, const ManyPlace& place,
                                     ManyStages<Tile>& stages, const unsigned* table,
                                     float (&sums)[count][32]) {
  using Shape = ManyShape<Tile>;
  using Rows = RowsShape<Tile>;
  constexpr int kSections = Tile::kSections / Shape::kHalves, kEach = Tile::kSectionGroups;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int c = lane % 4, row = warp * 16 + lane / 4;
  const char* const of_lane[2] = {place.row(call, row), place.row(call, row + 8)};
  unsigned a[2][kGroupProducts<Tile>][4];
  int held = -1;  // the stage of activations that products still read
#pragma unroll 1
  for (int chunk = place.chunk; chunk < place.last; ++chunk) {
    wait_for_barrier(stages.chunk_full(stages.chunk), stages.chunk_parity);
    const char* rows[2];
#pragma unroll
    for (int r = 0; r < 2; ++r)
      rows[r] = stages.chunks + stages.chunk * Shape::kChunkBytes + (row + 8 * r) * Tile::kPitch +
                lead_of<Tile>(of_lane[r] + int64_t{chunk} * Tile::kBytes);
    RowFactors<Tile> factors;
#pragma unroll
    for (int half = 0; half < Shape::kHalves; ++half) {
      wait_for_barrier(stages.step_full(stages.step), stages.step_parity);
      const uint64_t b = hopper::descriptor(stages.step_address(), 16);
      if (half * Rows::kParts % Shape::kHalves == 0)
        factors.load(rows, 4 * (half * Rows::kParts / Shape::kHalves) + c);
#pragma unroll
      for (int s = 0; s < kSections; ++s) {
        unsigned first[kEach][Tile::kTerms][Rows::kWords];
        unsigned second[kEach][Tile::kTerms][Rows::kWords];
        Tile::section(rows[0], c, half * kSections + s, table, first);
        Tile::section(rows[1], c, half * kSections + s, table, second);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const int side = (s * kEach + i) % 2, j = Tile::group(half * kSections + s, i);
          unpack_group<Tile>(first[i], second[i], factors, j, a[side]);
          add_group<Tile, count>(sums, a[side], j, b);
          hopper::wait_for_products<1>();
          if (s == 0 && i == 0 && held >= 0 && lane == 0) arrive(stages.step_empty(held));
        }
      }
      held = stages.step;
      stages.next_step();
    }
    __syncwarp();
    if (lane == 0) arrive(stages.chunk_empty(stages.chunk));
    stages.next_chunk();
  }
  hopper::wait_for_products<0>();
}

/// Gates, and stores them as the activations of the next product.
template <class Tile, int count>
__device__ inline void store_gates(const ExpertsProduct& call, const ManyPlace& place,
                                   const float (&sums)[count][32], char* shared) {
  using Shape = ManyShape<Tile>;
  constexpr int kColumns = Shape::kRows / 2, kPitch = kColumns * 2 + 16;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, c = lane % 4, own = warp * 8 + g, n = place.first + own;
  const float scale =
      call.scale && n < call.rows ? call.scale[int64_t{place.expert} * call.rows + n] : 1.0f;
  const float up_scale =
      call.up_scale && n < call.rows ? call.up_scale[int64_t{place.expert} * call.rows + n] : 1.0f;
  const int at = panel_place(call.out_order, own);
  hopper::sync_threads(1, Shape::kThreads);  // all have read their stages
#pragma unroll
  for (int t = 0; t < count; ++t)
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = t * 64 + i / 2 * 8 + 2 * c + i % 2, e = i / 2 * 4 + i % 2;
      const float value = activated(sums[t][e] * scale, call.gate) * (sums[t][e + 2] * up_scale);
      // Columns behind the matrix are zeros of the next product.
      store_number(shared + row * kPitch, call.out_dtype, at, n < call.rows ? value : 0.0f);
    }
  hopper::sync_threads(1, Shape::kThreads);
  constexpr int kPieces = kColumns / 8;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < place.rows * kPieces; i += Shape::kThreads) {
    const int row = i / kPieces, column = i % kPieces * 8, k = place.first + column;
    if (k >= call.out_panels * kPanel) continue;
    const int64_t panel = int64_t{place.tile} * call.out_panels + k / kPanel;
    *reinterpret_cast<uint4*>(call.out + panel * Shape::kPanelBytes +
                              panel_byte(row, k % kPanel * 2)) =
        *reinterpret_cast<const uint4*>(shared + row * kPitch + column * 2);
  }
}

template <class Tile, int count>
__device__ inline void store_sums(const ExpertsProduct& call, const ManyPlace& place,
                                  const float (&sums)[count][32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, c = lane % 4;
  auto* const out =
      reinterpret_cast<float*>(call.out) +
      (int64_t{place.split} * call.most + place.tile) * call.width * int64_t{call.rows};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int n = place.first + warp * 16 + half * 8 + g;
    if (n >= call.rows) continue;
    const float scale = call.scale ? call.scale[int64_t{place.expert} * call.rows + n] : 1.0f;
#pragma unroll
    for (int t = 0; t < count; ++t)
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int row = t * 64 + i / 2 * 8 + 2 * c + i % 2;
        if (row < place.rows)
          out[int64_t{row} * call.rows + n] = sums[t][i / 2 * 4 + 2 * half + i % 2] * scale;
      }
  }
}

template <class Tile, int count>
__device__ inline void many_tile(const ExpertsProduct& call, const ManyPlace& place,
                                 ManyStages<Tile>& stages, const unsigned* table) {
  float sums[count][32] = {};
  multiply_many<Tile, count>(call, place, stages, table, sums);
  if (call.gate != RowsCall::Gate::none)
    store_gates<Tile, count>(call, place, sums, stages.steps);
  else
    store_sums<Tile, count>(call, place, sums);
}

template <class Tile>
__global__ void __launch_bounds__(ManyShape<Tile>::kAllThreads, 1)
    multiply_expert_tiles(const __grid_constant__ ExpertsProduct call) {
  using Shape = ManyShape<Tile>;
  extern __shared__ char dynamic[];
  __shared__ typename ManyStages<Tile>::Barriers barriers;
  __shared__ unsigned table[Tile::kTable > 0 ? Tile::kTable : 1];
  const ManyPlace place = many_place<Tile>(call);
  if (place.rows == 0) return;
  char* const shared =
      dynamic + (1024 - static_cast<unsigned>(__cvta_generic_to_shared(dynamic)) % 1024) % 1024;
  ManyStages<Tile> stages(shared, barriers);
  if (threadIdx.x == 0) stages.init();
  if constexpr (Tile::kTable > 0)
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kTable; i += Shape::kAllThreads)
      table[i] = Tile::table_word(i);
  __syncthreads();
  const int count = (place.rows + 63) / 64;
  if (threadIdx.x >= Shape::kThreads) {
    hopper::give_registers<56>();
    const char* const x = call.x + int64_t{place.tile} * call.panels * Shape::kPanelBytes;
#pragma unroll 1
    for (int chunk = place.chunk; chunk < place.last; ++chunk) {
      stages.request_chunk(call, place, chunk);
#pragma unroll 1
      for (int half = 0; half < Shape::kHalves; ++half)
        stages.request_step(x + int64_t{chunk * Shape::kHalves + half} * 2 * Shape::kPanelBytes,
                            count * 64);
    }
    return;
  }
  hopper::take_registers<152>();
  if (count == 1)
    many_tile<Tile, 1>(call, place, stages, table);
  else if (count == 2)
    many_tile<Tile, 2>(call, place, stages, table);
  else
    many_tile<Tile, 3>(call, place, stages, table);
}

template <class Tile>
constexpr PanelOrder order_of() {
  return Tile::kGroup == 16              ? PanelOrder::sixteen
         : Tile::kOrder == Order::eight  ? PanelOrder::eight
         : Tile::kOrder == Order::halves ? PanelOrder::halves
                                         : PanelOrder::pairs;
}

template <class Tile>
ManyExperts many_experts_of() {
  using Shape = ManyShape<Tile>;
  return {.order = order_of<Tile>(),
          .chunk = Tile::kChunk,
          .align = Tile::kAlign,
          .half = !is_bfloat16_type<typename Tile::Element>,
          .launch = [](std::string_view op, int device, const ExpertsProduct& call) {
            const auto kernel = multiply_expert_tiles<Tile>;
            allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Shape::kBytes);
            const bool gated = call.gate != RowsCall::Gate::none;
            const int each = gated ? Shape::kRows / 2 : Shape::kRows;
            // Gated products also write the zeros behind the next product's activations.
            const int rows = gated ? std::max(call.rows, call.out_panels * kPanel) : call.rows;
            const int64_t blocks = int64_t{(rows + each - 1) / each} * call.most * call.splits;
            Launch{op, device, Shape::kBytes}(kernel, dim3(static_cast<unsigned>(blocks)),
                                              dim3(Shape::kAllThreads), call);
          }};
}

}  // namespace tensora::cuda
