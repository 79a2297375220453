#pragma once

// Internal header
// What the two backwards on Hopper share: attention_backward_sm90a.cu and
// attention_backward_one_pass_sm90a.cu.

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_mma.cuh"
#include "tensora/ops/attention/hopper.cuh"
#include "tensora/ops/attention/hopper_maps.h"

namespace tensora::cuda::hopper::backward {

inline constexpr int kRows = 128, kCols = 64, kStages = 3, kBlock = 384;

template <int width>
struct BackTile {
  static constexpr unsigned kPanels = width / 64;
  static constexpr unsigned kPanelBytes = 64 * 128;  // 64 rows of 128 bytes
  static constexpr unsigned kTileBytes = kPanels * kPanelBytes;
  static constexpr unsigned kLines = 2 * kCols * 4;  // logarithms and deltas
  static constexpr unsigned kShared =
      (4 + 2 * kStages) * kTileBytes + kStages * kLines + 1024 + 128;
};

/// Boxes of 64 rows of the four operands.
struct BackMaps {
  CUtensorMap query, key, value, grad;
};

/// What a block works on, and the addresses of what it has in shared memory.
template <int width, bool turned>
struct Work {
  using Tile = BackTile<width>;
  unsigned memory;
  int first, owner, batch, begin, per_head, steps, per_group;

  // Rows of A, then of A2, 64 of each for each warpgroup.
  __device__ unsigned row_tile(unsigned operand, unsigned group) const {
    return memory + (operand * 2 + group) * Tile::kTileBytes;
  }
  __device__ unsigned col_tile(unsigned operand, unsigned stage) const {
    return memory + (4 + stage * 2 + operand) * Tile::kTileBytes;
  }
  __device__ unsigned lines(unsigned stage) const {
    return memory + (4 + 2 * kStages) * Tile::kTileBytes + stage * Tile::kLines;
  }
  __device__ unsigned rows_full() const { return lines(kStages); }
  __device__ unsigned full(unsigned stage) const { return lines(kStages) + 8 + stage * 8; }
  __device__ unsigned empty(unsigned stage) const {
    return lines(kStages) + 8 + (kStages + stage) * 8;
  }
  __device__ int head(int step) const {
    return turned ? owner * per_group + step / per_head : owner;
  }
  __device__ int col(int step) const { return (begin + step % per_head) * kCols; }
};

struct Ring {
  unsigned stage = 0, parity = 0;
  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// The work of this block, and its barriers.
template <int width, bool turned>
__device__ inline Work<width, turned> begin_work(const AttentionCall& call, const TileOrder& order,
                                                 const char* shared) {
  Work<width, turned> work;
  const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  work.memory = (start + 1023) / 1024 * 1024;
  work.per_group = call.heads / call.groups;
  const int owners = turned ? call.groups : call.heads;
  const TileOrder::Place place = order.at(static_cast<int>(blockIdx.x), owners);
  // Rows with the most columns first, for causal attention: the last queries, the first keys.
  work.first = (turned ? place.tile : order.tiles - 1 - place.tile) * kRows;
  work.owner = place.head;
  work.batch = place.batch;
  const int whole = static_cast<int>(turned ? call.queries : call.keys);
  const int end = !turned && call.causal ? min(whole, work.first + kRows) : whole;
  work.begin = turned && call.causal ? work.first / kCols : 0;
  work.per_head = max(0, (end + kCols - 1) / kCols - work.begin);
  work.steps = work.per_head * (turned ? work.per_group : 1);
  if (threadIdx.x == 0) {
    init_barrier(work.rows_full(), 1);
    for (unsigned stage = 0; stage < kStages; ++stage) {
      init_barrier(work.full(stage), turned ? 33 : 1);
      init_barrier(work.empty(stage), 8);
    }
    fence_barriers();
  }
  return work;
}

template <int width>
__device__ inline void load_box(unsigned to, const CUtensorMap& map, int row, int head, int batch,
                                unsigned barrier) {
#pragma unroll
  for (unsigned panel = 0; panel < BackTile<width>::kPanels; ++panel)
    copy_box(to + panel * BackTile<width>::kPanelBytes, map, static_cast<int>(panel) * 64, row,
             head, batch, barrier);
}

template <int width, bool turned>
__device__ void load_tiles(const BackMaps& maps, const Work<width, turned>& work) {
  using Tile = BackTile<width>;
  expect_bytes(work.rows_full(), 4 * Tile::kTileBytes);
  for (unsigned group = 0; group < 2; ++group) {
    const int row = work.first + static_cast<int>(group) * 64;
    load_box<width>(work.row_tile(0, group), turned ? maps.key : maps.query, row, work.owner,
                    work.batch, work.rows_full());
    load_box<width>(work.row_tile(1, group), turned ? maps.value : maps.grad, row, work.owner,
                    work.batch, work.rows_full());
  }
  Ring ring;
  for (int step = 0; step < work.steps; ++step) {
    wait_for_barrier(work.empty(ring.stage), ring.parity ^ 1);
    const unsigned barrier = work.full(ring.stage);
    expect_bytes(barrier, 2 * Tile::kTileBytes);
    const int head = turned ? work.head(step) : work.owner / work.per_group;
    load_box<width>(work.col_tile(0, ring.stage), turned ? maps.query : maps.key, work.col(step),
                    head, work.batch, barrier);
    load_box<width>(work.col_tile(1, ring.stage), turned ? maps.grad : maps.value, work.col(step),
                    head, work.batch, barrier);
    ring.advance();
  }
}

/// The logarithm of a query's sum, to the base 2, and its delta. A query without any key, or beyond
/// the last, has an infinite logarithm: its probabilities are 0.
__device__ inline float2 line_values(const AttentionCall& call, int batch, int head, int query) {
  if (query >= static_cast<int>(call.queries)) return {__builtin_huge_valf(), 0.0f};
  const int64_t line = (int64_t{batch} * call.heads + head) * call.queries + query;
  const float logarithm = static_cast<const float*>(call.logarithms)[line];
  return {logarithm == kHidden ? __builtin_huge_valf() : logarithm * kLog2E,
          static_cast<const float*>(call.delta)[line]};
}

// A warp's part: two queries of each tile per lane.
template <int width>
__device__ void load_lines(const AttentionCall& call, const Work<width, true>& work) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Ring ring;
  for (int step = 0; step < work.steps; ++step) {
    float2 values[2];
    for (int i = 0; i < 2; ++i)
      values[i] = line_values(call, work.batch, work.head(step), work.col(step) + lane + i * 32);
    wait_for_barrier(work.empty(ring.stage), ring.parity ^ 1);
    for (int i = 0; i < 2; ++i) {
      const unsigned at = work.lines(ring.stage) + static_cast<unsigned>(lane + i * 32) * 4;
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(values[i].x) : "memory");
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(at + kCols * 4), "f"(values[i].y) : "memory");
    }
    arrive(work.full(ring.stage));
    ring.advance();
  }
}

__device__ inline float2 shared_pair(unsigned at) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(at));
  return pair;
}

template <class T, int width>
__device__ inline void start_sums(const unsigned (&weights)[4][4], unsigned cols,
                                  float (&sums)[width / 2]) {
  const uint64_t first = descriptor(cols, BackTile<width>::kPanelBytes);
#pragma unroll
  for (unsigned k = 0; k < kCols / 16; ++k)
    add_product<T>(sums, weights[k], first + k * (2048 >> 4));
}

template <class T>
__device__ inline void round_weights(const float (&from)[32], unsigned (&to)[4][4]) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[k][i] = round_pair<T>(from[k * 8 + i * 2], from[k * 8 + i * 2 + 1]);
}

// Scores become probabilities.
template <bool turned>
__device__ inline void to_probabilities(float factor, const float2 (&own)[2], unsigned lines,
                                        float (&p)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float2 logarithms;
    if constexpr (turned)
      logarithms = shared_pair(lines + static_cast<unsigned>(n * 8 + lane % 4 * 2) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float base = turned ? (i % 2 ? logarithms.y : logarithms.x) : own[i / 2].x;
      p[n * 4 + i] = power_of_two(fmaf(p[n * 4 + i], factor, -base));
    }
  }
}

// Probabilities of keys beyond the last become 0, and of those after their query, if causal. Apart
// from the above: few tiles need it, and the compiler would do it for all.
template <bool turned>
__device__ inline void hide(const AttentionCall& call, int row, int col, float (&p)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, keys = static_cast<int>(call.keys);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane / 4 + half * 8;
    int bound;  // the first query that sees key r, or the first key that query r does not see
    if constexpr (turned)
      bound = r >= keys ? 1 << 30 : call.causal ? r : 0;
    else
      bound = call.causal ? min(keys, r + 1) : keys;
    bound -= col + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if ((n * 8 + i < bound) == turned) p[n * 4 + half * 2 + i] = 0;
  }
}

// The products of gradient and values become dS.
template <bool turned>
__device__ inline void to_gradients(const float (&p)[32], const float2 (&own)[2], unsigned lines,
                                    float (&ds)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float2 deltas;
    if constexpr (turned)
      deltas = shared_pair(lines + kCols * 4 + static_cast<unsigned>(n * 8 + lane % 4 * 2) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      ds[n * 4 + i] =
          p[n * 4 + i] * (ds[n * 4 + i] - (turned ? (i % 2 ? deltas.y : deltas.x) : own[i / 2].y));
  }
}

template <class T, int width>
__device__ inline void store_sums(const Array4& out, int batch, int head, int row, int count,
                                  int size, float factor, const float (&sums)[width / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane / 4 + half * 8;
    if (r >= count) continue;
    char* const to =
        out.data + (batch * out.strides[0] + head * out.strides[1] + r * out.strides[2]) * 2;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (col < size)
        *reinterpret_cast<unsigned*>(to + col * 2) =
            round_pair<T>(sums[n * 4 + 2 * half] * factor, sums[n * 4 + 2 * half + 1] * factor);
    }
  }
}

/// See Note [Attention backward in one pass]. Head sizes up to 64; bits may differ from run to run.
void backward_in_one_pass(std::string_view op, int device, const AttentionCall& call,
                          const BackMaps& maps);

}  // namespace tensora::cuda::hopper::backward
