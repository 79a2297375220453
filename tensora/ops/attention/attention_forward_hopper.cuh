#pragma once

// Internal header, for sources called *_sm90a.cu

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_mma.cuh"
#include "tensora/ops/attention/hopper.cuh"
#include "tensora/ops/attention/hopper_maps.h"

// Note [Attention on Hopper]
// A block has three warpgroups. One thread of the first keeps the TMA busy: queries, and a ring of
// tiles of keys and values. The other two compute, each for 64 of the 128 queries; registers are
// taken from the first and given to them. A computing warpgroup has two products in flight while it
// works on exponentials: the scores of the next keys are started before the product of these
// probabilities with their values, and the softmax of the next scores runs while the latter is
// computed. The two warpgroups take turns in starting products, so that one's exponentials run
// beside the other's products. Blocks stay for as many tiles of queries as there are, so that the
// loads of the next tile overlap the end of this one. Tiles with the most keys come first, and
// tiles of heads whose keys and values fit the L2 cache together come together.

//
// Where queries, keys and values lie is the business of a Problem:
//   work(tiles, number)   a tile of queries: `first`, the position of its first query, and `steps`,
//                         how many tiles of keys it sees from tile `begin` on; the last of them is
//                         hidden from some of its queries; 0: its queries see nothing
//   hides_some(work, tile)   whether an earlier tile is, too
//   loaders()             how many threads load
//   load_query, find, load   what each of them does; `find` is asked before there is room
//   hides(query, key)     by position
//   held(work)            how many rows of the last tile of values hold numbers
//   factor()              of the scores, to the base 2
//   store_row(...)        one row of results, if it is there

namespace tensora::cuda::hopper {

inline constexpr int kRows = 128, kKeys = 128, kStages = 2;
inline constexpr int kComputing = 2, kBlock = 128 * (kComputing + 1);

template <int width>
struct HopperTile {
  static constexpr unsigned kPanels = width / 64;
  static constexpr unsigned kPanelBytes = 128 * 128;  // 128 rows of 128 bytes
  static constexpr unsigned kTileBytes = kPanels * kPanelBytes;
  static constexpr unsigned kShared = kTileBytes * (1 + 2 * kStages) + 1024 + 128;
};

/// The barriers of a block, by their addresses in shared memory.
struct Barriers {
  unsigned base;
  __device__ unsigned query_full() const { return base; }
  __device__ unsigned query_empty() const { return base + 8; }
  __device__ unsigned key_full(unsigned stage) const { return base + 16 + stage * 8; }
  __device__ unsigned key_empty(unsigned stage) const { return base + 32 + stage * 8; }
  __device__ unsigned value_full(unsigned stage) const { return base + 48 + stage * 8; }
  __device__ unsigned value_empty(unsigned stage) const { return base + 64 + stage * 8; }
};

/// A position in the ring of stages.
struct Ring {
  unsigned stage = 0, parity = 0;
  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The threads that load: keys from the last tile to the first, values one step behind.
template <int width, class Problem>
__device__ void load_tiles(const Problem& problem, const TileOrder& tiles, unsigned memory,
                           const Barriers& barriers) {
  using Tile = HopperTile<width>;
  const auto announce = [&](unsigned barrier) {
    if (threadIdx.x == 0) expect_bytes(barrier, Tile::kTileBytes);
    return barrier;
  };
  const auto key_tile = [&](unsigned stage) { return memory + (1 + 2 * stage) * Tile::kTileBytes; };
  Ring keys, values;
  unsigned query_parity = 1;  // the first wait for an empty tile passes
  for (int number = static_cast<int>(blockIdx.x); number < tiles.total;
       number += static_cast<int>(gridDim.x)) {
    const auto work = problem.work(tiles, number);
    if (Problem::kMaySeeNothing && work.steps == 0) continue;
    wait_for_barrier(barriers.query_empty(), query_parity);
    query_parity ^= 1;
    problem.template load_query<width>(work, memory, announce(barriers.query_full()));
    for (int step = 0; step <= work.steps; ++step) {
      if (step < work.steps) {
        const auto from = problem.find(work, work.begin + work.steps - 1 - step);
        wait_for_barrier(barriers.key_empty(keys.stage), keys.parity ^ 1);
        problem.template load<width>(problem.key, work, from, key_tile(keys.stage),
                                     announce(barriers.key_full(keys.stage)));
        keys.advance();
      }
      if (step > 0) {
        const auto from = problem.find(work, work.begin + work.steps - step);
        wait_for_barrier(barriers.value_empty(values.stage), values.parity ^ 1);
        problem.template load<width>(problem.value, work, from,
                                     key_tile(values.stage) + Tile::kTileBytes,
                                     announce(barriers.value_full(values.stage)));
        values.advance();
      }
    }
  }
}

/// What a thread of a computing warpgroup knows of its two rows.
template <int width>
struct Rows {
  float sums[width / 2];
  float largest[2], total[2];
};

template <class Problem>
__device__ inline void hide(const Problem& problem, int row, int key, float (&scores)[64]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int q = row + lane / 4 + i / 2 % 2 * 8, k = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (problem.hides(q, k)) scores[i] = kHidden;
  }
}

// Scores become exponentials; gives the factors by which what was summed before shrinks.
template <int width>
__device__ inline void soften(float factor, float (&scores)[64], Rows<width>& rows,
                              float (&shrink)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = rows.largest[half];
#pragma unroll
    for (int i = 0; i < 64; i += 4)
      largest = fmaxf(largest, fmaxf(scores[i + 2 * half], scores[i + 2 * half + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 2));
    const float base = largest == kHidden ? 0.0f : largest * factor;
    shrink[half] = power_of_two(fmaf(rows.largest[half], factor, -base));
    rows.largest[half] = largest;
    float total = 0;
#pragma unroll
    for (int i = 0; i < 64; i += 4)
#pragma unroll
      for (int j = i + 2 * half; j < i + 2 * half + 2; ++j) {
        scores[j] = power_of_two(fmaf(scores[j], factor, -base));
        total += scores[j];
      }
    rows.total[half] = rows.total[half] * shrink[half] + total;
  }
}

template <class T>
__device__ inline void round_scores(const float (&scores)[64], unsigned (&p)[8][4]) {
#pragma unroll
  for (int k = 0; k < 8; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      p[k][i] = round_pair<T>(scores[k * 8 + i * 2], scores[k * 8 + i * 2 + 1]);
}

template <class T, int width>
__device__ inline void start_scores(unsigned query, unsigned key, float (&scores)[64]) {
  using Tile = HopperTile<width>;
#pragma unroll
  for (unsigned k = 0; k < width / 16; ++k) {
    const unsigned at = k / 4 * Tile::kPanelBytes + k % 4 * 32;
    if (k == 0)
      set_product<T>(scores, descriptor(query + at, 16), descriptor(key + at, 16));
    else
      add_product<T>(scores, descriptor(query + at, 16), descriptor(key + at, 16));
  }
  close_products();
}

template <class T, int width>
__device__ inline void start_results(const unsigned (&p)[8][4], unsigned value,
                                     float (&sums)[width / 2]) {
#pragma unroll
  for (unsigned k = 0; k < 8; ++k)
    add_product<T>(sums, p[k], descriptor(value + k * 2048, HopperTile<width>::kPanelBytes));
  close_products();
}

/// The two computing warpgroups take turns in starting products.
struct Turns {
  int group;
  __device__ void take() const { sync_threads(1 + group, 256); }
  __device__ void pass() const { arrive_threads(2 - group, 256); }
};

// Rows of values from `held` on become zero: memory that no key was written to may hold NaN, and
// then a probability of zero does not help. Each warpgroup does it for itself.
template <int width>
__device__ inline void clear_values(unsigned tile, int held, int group) {
  const unsigned row = threadIdx.x % 128;
  if (static_cast<int>(row) >= held) {
#pragma unroll
    for (unsigned i = 0; i < HopperTile<width>::kPanels * 8; ++i)
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                       tile + i / 8 * HopperTile<width>::kPanelBytes + row * 128 + i % 8 * 16),
                   "r"(0)
                   : "memory");
  }
  fence_copies();
  sync_threads(3 + group, 128);
}

/// What a computing warpgroup keeps from tile to tile.
struct Computing {
  unsigned memory;
  Barriers barriers;
  int group;  // of the computing warpgroups
  Ring keys = {}, values = {};
  unsigned query_parity = 0;
};

template <class T, int width, class Problem>
__device__ inline void compute_tile(const Problem& problem, const typename Problem::Work& work,
                                    int row, Computing& at, Rows<width>& rows) {
  using Tile = HopperTile<width>;
  const bool speaks = threadIdx.x % 32 == 0;
  const Barriers& barriers = at.barriers;
  Ring &keys = at.keys, &values = at.values;
  const unsigned query = at.memory + static_cast<unsigned>(at.group) * 64 * 128;
  const auto key_tile = [&](unsigned stage) {
    return at.memory + (1 + 2 * stage) * Tile::kTileBytes;
  };
  const float factor = problem.factor();
  const Turns turn{at.group};
  const int steps = work.steps, held = problem.held(work);
  float scores[64], shrink[2];
  unsigned p[8][4];
  wait_for_barrier(barriers.query_full(), at.query_parity);
  at.query_parity ^= 1;
  // The last tile of keys, of which something may always be hidden.
  wait_for_barrier(barriers.key_full(keys.stage), keys.parity);
  turn.take();
  fence_registers();
  start_scores<T, width>(query, key_tile(keys.stage), scores);
  turn.pass();
  wait_for_products<0>();
  if (speaks) arrive(barriers.key_empty(keys.stage));
  if (steps == 1 && speaks) arrive(barriers.query_empty());
  keys.advance();
  hide(problem, row, (work.begin + steps - 1) * kKeys, scores);
  soften(factor, scores, rows, shrink);
  round_scores<T>(scores, p);
  for (int step = 1; step < steps; ++step) {
    wait_for_barrier(barriers.key_full(keys.stage), keys.parity);
    turn.take();
    fence_registers();
    start_scores<T, width>(query, key_tile(keys.stage), scores);
    wait_for_barrier(barriers.value_full(values.stage), values.parity);
    if (step == 1 && held < kKeys)
      clear_values<width>(key_tile(values.stage) + Tile::kTileBytes, held, at.group);
    fence_registers();
    start_results<T, width>(p, key_tile(values.stage) + Tile::kTileBytes, rows.sums);
    turn.pass();
    wait_for_products<1>();
    if (speaks) arrive(barriers.key_empty(keys.stage));
    if (step + 1 == steps && speaks) arrive(barriers.query_empty());
    keys.advance();
    if (const int tile = work.begin + steps - 1 - step; problem.hides_some(work, tile))
      hide(problem, row, tile * kKeys, scores);
    soften(factor, scores, rows, shrink);
    wait_for_products<0>();
    if (speaks) arrive(barriers.value_empty(values.stage));
    values.advance();
#pragma unroll
    for (int i = 0; i < width / 2; ++i) rows.sums[i] *= shrink[i / 2 % 2];
    round_scores<T>(scores, p);
  }
  wait_for_barrier(barriers.value_full(values.stage), values.parity);
  if (steps == 1 && held < kKeys)
    clear_values<width>(key_tile(values.stage) + Tile::kTileBytes, held, at.group);
  fence_registers();
  start_results<T, width>(p, key_tile(values.stage) + Tile::kTileBytes, rows.sums);
  wait_for_products<0>();
  if (speaks) arrive(barriers.value_empty(values.stage));
  values.advance();
}

template <class T, int width, class Problem>
__device__ inline void store_rows(const Problem& problem, const typename Problem::Work& work,
                                  int row, const Rows<width>& rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = rows.total[half];
    total += __shfl_xor_sync(kWholeWarp, total, 1);
    total += __shfl_xor_sync(kWholeWarp, total, 2);
    const float inverse = total == 0 ? 0.0f : 1.0f / total;
    char* const to = problem.store_row(work, row + lane / 4 + half * 8, rows.largest[half], total);
    if (!to) continue;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (col < problem.value_size())
        *reinterpret_cast<unsigned*>(to + col * 2) = round_pair<T>(
            rows.sums[n * 4 + 2 * half] * inverse, rows.sums[n * 4 + 2 * half + 1] * inverse);
    }
  }
}

template <class T, int width, class Problem>
__device__ void compute_tiles(const Problem& problem, const TileOrder& tiles, unsigned memory,
                              const Barriers& barriers) {
  Computing at{memory, barriers, static_cast<int>(threadIdx.x) / 128 - 1};
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  if (at.group == 1) arrive_threads(1, 256);  // the first warpgroup begins
  for (int number = static_cast<int>(blockIdx.x); number < tiles.total;
       number += static_cast<int>(gridDim.x)) {
    const auto work = problem.work(tiles, number);
    const int row = work.first + at.group * 64 + warp * 16;
    Rows<width> rows = {};
    rows.largest[0] = rows.largest[1] = kHidden;
    if (!Problem::kMaySeeNothing || work.steps > 0)
      compute_tile<T, width>(problem, work, row, at, rows);
    store_rows<T, width>(problem, work, row, rows);
  }
}

template <class T, int width, class Problem>
__global__ void __launch_bounds__(kBlock, 1)
    attention_on_hopper(const __grid_constant__ Problem problem, const TileOrder tiles) {
  extern __shared__ char shared[];
  // The pattern of 128-byte rows repeats every 1024 bytes, so that is where tiles begin.
  const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const unsigned memory = (start + 1023) / 1024 * 1024;
  const Barriers barriers{memory + HopperTile<width>::kTileBytes * (1 + 2 * kStages)};
  if (threadIdx.x == 0) {
    constexpr unsigned kWarps = 4 * kComputing;
    init_barrier(barriers.query_full(), 1);
    init_barrier(barriers.query_empty(), kWarps);
    for (unsigned stage = 0; stage < kStages; ++stage) {
      init_barrier(barriers.key_full(stage), 1);
      init_barrier(barriers.value_full(stage), 1);
      init_barrier(barriers.key_empty(stage), kWarps);
      init_barrier(barriers.value_empty(stage), kWarps);
    }
    fence_barriers();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (static_cast<int>(threadIdx.x) < problem.loaders())
      load_tiles<width>(problem, tiles, memory, barriers);
  } else {
    take_registers<240>();
    compute_tiles<T, width>(problem, tiles, memory, barriers);
  }
}

/// As many blocks as the device runs at once.
template <class T, int width, class Problem>
void launch_on_hopper(std::string_view op, int device, const Problem& problem,
                      const TileOrder& order) {
  using Tile = HopperTile<width>;
  const auto kernel = attention_on_hopper<T, width, Problem>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Tile::kShared);
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(order.total, device_info(device).multiprocessors));
  Launch{op, device, Tile::kShared}(kernel, dim3(blocks), dim3(kBlock), problem, order);
}

}  // namespace tensora::cuda::hopper
