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

namespace tensora::cuda {
namespace {

using namespace hopper;

constexpr int kRows = 128, kKeys = 128, kStages = 2;
constexpr int kComputing = 2, kBlock = 128 * (kComputing + 1);

template <int width>
struct HopperTile {
  static constexpr unsigned kPanels = width / 64;
  static constexpr unsigned kPanelBytes = 128 * 128;  // 128 rows of 128 bytes
  static constexpr unsigned kTileBytes = kPanels * kPanelBytes;
  static constexpr unsigned kShared = kTileBytes * (1 + 2 * kStages) + 1024 + 128;
};

struct HopperMaps {
  CUtensorMap query, key, value;
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

__device__ inline int key_tiles(const AttentionCall& call, int first) {
  const int keys = static_cast<int>(call.keys);
  const int end = call.causal ? min(keys, first + kRows) : keys;
  return (end + kKeys - 1) / kKeys;
}

// The thread that loads: keys from the last tile to the first, values one step behind.
template <int width>
__device__ void load_tiles(const AttentionCall& call, const HopperMaps& maps,
                           const TileOrder& tiles, unsigned memory, const Barriers& barriers) {
  using Tile = HopperTile<width>;
  const auto load = [&](unsigned to, const CUtensorMap& map, int row, int head, int batch,
                        unsigned barrier) {
    expect_bytes(barrier, Tile::kTileBytes);
#pragma unroll
    for (unsigned panel = 0; panel < Tile::kPanels; ++panel)
      copy_box(to + panel * Tile::kPanelBytes, map, static_cast<int>(panel) * 64, row, head, batch,
               barrier);
  };
  const auto key_tile = [&](unsigned stage) { return memory + (1 + 2 * stage) * Tile::kTileBytes; };
  const int per_group = call.heads / call.groups;
  Ring keys, values;
  unsigned query_parity = 1;  // the first wait for an empty tile passes
  for (int number = static_cast<int>(blockIdx.x); number < tiles.total;
       number += static_cast<int>(gridDim.x)) {
    const TileOrder::Place place = tiles.at(number, call.heads);
    const int first = (tiles.tiles - 1 - place.tile) * kRows;
    const int group = place.head / per_group, steps = key_tiles(call, first);
    wait(barriers.query_empty(), query_parity);
    query_parity ^= 1;
    load(memory, maps.query, first, place.head, place.batch, barriers.query_full());
    for (int step = 0; step <= steps; ++step) {
      if (step < steps) {
        wait(barriers.key_empty(keys.stage), keys.parity ^ 1);
        load(key_tile(keys.stage), maps.key, (steps - 1 - step) * kKeys, group, place.batch,
             barriers.key_full(keys.stage));
        keys.advance();
      }
      if (step > 0) {
        wait(barriers.value_empty(values.stage), values.parity ^ 1);
        load(key_tile(values.stage) + Tile::kTileBytes, maps.value, (steps - step) * kKeys, group,
             place.batch, barriers.value_full(values.stage));
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

__device__ inline void hide(const AttentionCall& call, int row, int key, float (&scores)[64]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, keys = static_cast<int>(call.keys);
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int q = row + lane / 4 + i / 2 % 2 * 8, k = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (k >= keys || (call.causal && k > q)) scores[i] = kHidden;
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

template <class T, int width>
__device__ inline void store_rows(const AttentionCall& call, int batch, int head, int row,
                                  float factor, Rows<width>& rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32, queries = static_cast<int>(call.queries);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = rows.total[half];
    total += __shfl_xor_sync(kWholeWarp, total, 1);
    total += __shfl_xor_sync(kWholeWarp, total, 2);
    const float inverse = total == 0 ? 0.0f : 1.0f / total;
    const int query = row + lane / 4 + half * 8;
    if (query >= queries) continue;
    const int64_t line = (int64_t{batch} * call.heads + head) * queries + query;
    if (lane % 4 == 0)
      static_cast<float*>(call.logarithms)[line] =
          total == 0 ? kHidden : (rows.largest[half] * factor + __log2f(total)) / kLog2E;
    const Array4& out = call.result;
    char* const to =
        out.data + (batch * out.strides[0] + head * out.strides[1] + query * out.strides[2]) * 2;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (col < call.value_size)
        *reinterpret_cast<unsigned*>(to + col * 2) = round_pair<T>(
            rows.sums[n * 4 + 2 * half] * inverse, rows.sums[n * 4 + 2 * half + 1] * inverse);
    }
  }
}

/// The two computing warpgroups take turns in starting products.
template <bool on>
struct Turns {
  int group;
  __device__ void take() const {
    if constexpr (on) sync_threads(1 + group, 256);
  }
  __device__ void pass() const {
    if constexpr (on) arrive_threads(2 - group, 256);
  }
};

template <class T, int width, bool turns>
__device__ void compute_tiles(const AttentionCall& call, const TileOrder& tiles, unsigned memory,
                              const Barriers& barriers) {
  using Tile = HopperTile<width>;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;  // of the computing warpgroups
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const bool speaks = threadIdx.x % 32 == 0;
  const unsigned query = memory + static_cast<unsigned>(group) * 64 * 128;
  const auto key_tile = [&](unsigned stage) { return memory + (1 + 2 * stage) * Tile::kTileBytes; };
  const float factor = static_cast<float>(call.scale) * kLog2E;
  const Turns<turns> turn{group};
  if (turns && group == 1) arrive_threads(1, 256);  // the first warpgroup begins
  Ring keys, values;
  unsigned query_parity = 0;
  float scores[64];
  unsigned p[8][4];
  for (int number = static_cast<int>(blockIdx.x); number < tiles.total;
       number += static_cast<int>(gridDim.x)) {
    const TileOrder::Place place = tiles.at(number, call.heads);
    const int first = (tiles.tiles - 1 - place.tile) * kRows;  // the most keys first
    const int steps = key_tiles(call, first);
    const int row = first + group * 64 + warp * 16;
    Rows<width> rows = {};
    rows.largest[0] = rows.largest[1] = kHidden;
    float shrink[2];
    wait(barriers.query_full(), query_parity);
    query_parity ^= 1;
    // The last tile of keys, the only one of which something may be hidden.
    wait(barriers.key_full(keys.stage), keys.parity);
    turn.take();
    fence_registers();
    start_scores<T, width>(query, key_tile(keys.stage), scores);
    turn.pass();
    wait_for_products<0>();
    if (speaks) arrive(barriers.key_empty(keys.stage));
    if (steps == 1 && speaks) arrive(barriers.query_empty());
    keys.advance();
    hide(call, row, (steps - 1) * kKeys, scores);
    soften(factor, scores, rows, shrink);
    round_scores<T>(scores, p);
    for (int step = 1; step < steps; ++step) {
      wait(barriers.key_full(keys.stage), keys.parity);
      turn.take();
      fence_registers();
      start_scores<T, width>(query, key_tile(keys.stage), scores);
      wait(barriers.value_full(values.stage), values.parity);
      fence_registers();
      start_results<T, width>(p, key_tile(values.stage) + Tile::kTileBytes, rows.sums);
      turn.pass();
      wait_for_products<1>();
      if (speaks) arrive(barriers.key_empty(keys.stage));
      if (step + 1 == steps && speaks) arrive(barriers.query_empty());
      keys.advance();
      soften(factor, scores, rows, shrink);
      wait_for_products<0>();
      if (speaks) arrive(barriers.value_empty(values.stage));
      values.advance();
#pragma unroll
      for (int i = 0; i < width / 2; ++i) rows.sums[i] *= shrink[i / 2 % 2];
      round_scores<T>(scores, p);
    }
    wait(barriers.value_full(values.stage), values.parity);
    fence_registers();
    start_results<T, width>(p, key_tile(values.stage) + Tile::kTileBytes, rows.sums);
    wait_for_products<0>();
    if (speaks) arrive(barriers.value_empty(values.stage));
    values.advance();
    store_rows<T, width>(call, place.batch, place.head, row, factor, rows);
  }
}

template <class T, int width, bool turns>
__global__ void __launch_bounds__(kBlock, 1)
    attention_forward_hopper(const AttentionCall call, const __grid_constant__ HopperMaps maps,
                             const TileOrder tiles) {
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
    if (threadIdx.x == 0) load_tiles<width>(call, maps, tiles, memory, barriers);
  } else {
    take_registers<240>();
    compute_tiles<T, width, turns>(call, tiles, memory, barriers);
  }
}

template <class T, int width>
void launch_hopper(std::string_view op, int device, const AttentionCall& call,
                   const HopperMaps& maps) {
  using Tile = HopperTile<width>;
  const auto kernel = attention_forward_hopper<T, width, true>;
  const int64_t per_head = call.keys * width * 4 * call.groups / call.heads;
  const TileOrder order = tile_order(op, call.queries, call.sequences * call.heads, per_head);
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Tile::kShared);
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(order.total, device_info(device).multiprocessors));
  Launch{op, device, Tile::kShared}(kernel, dim3(blocks), dim3(kBlock), call, maps, order);
}

}  // namespace

bool forward_on_hopper(std::string_view op, int device, const AttentionCall& call) {
  const int widest = std::max(call.head_size, call.value_size);
  const int64_t batch = call.sequences, q = call.queries, k = call.keys;
  if (widest > 128 || has_extras(call) || call.starts_q || k == 0) return false;
  HopperMaps maps;
  if (!describe_boxes(call.query, call.head_size, q, call.heads, batch, 128, maps.query) ||
      !describe_boxes(call.key, call.head_size, k, call.groups, batch, 128, maps.key) ||
      !describe_boxes(call.value, call.value_size, k, call.groups, batch, 128, maps.value))
    return false;
  const auto run = [&]<class T>() {
    if (widest <= 64)
      launch_hopper<T, 64>(op, device, call, maps);
    else
      launch_hopper<T, 128>(op, device, call, maps);
  };
  if (call.query.element == Element::bfloat16)
    run.template operator()<BFloat16>();
  else
    run.template operator()<Half>();
  return true;
}

}  // namespace tensora::cuda
