#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_mma.cuh"
#include "tensora/ops/attention/hopper.cuh"
#include "tensora/ops/attention/hopper_maps.h"

// Note [Attention backward on Hopper]
// The two forms of Note [Attention backward on tensor cores], by wgmma: a block has 128 rows, 64
// for each of two computing warpgroups, and a ring of tiles of 64 columns that one thread fills by
// TMA. Scores and products with the values are sums of wgmma with both operands in shared memory; P
// and dS are rounded in registers and are the left operands of the products that follow. One
// warpgroup's products run while the other computes probabilities; to start the next scores before
// these products are complete was measured to be slower, for want of registers. The queries'
// logarithms and deltas that belong to the columns of the second form are copied by a warp of their
// own.

namespace tensora::cuda {
namespace {

using namespace hopper;

constexpr int kRows = 128, kCols = 64, kStages = 3, kBlock = 384;

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
    wait(work.empty(ring.stage), ring.parity ^ 1);
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
    wait(work.empty(ring.stage), ring.parity ^ 1);
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

/// rows @ cols^T of two tiles of 64 rows.
template <class T, int width>
__device__ inline void start_scores(unsigned rows, unsigned cols, float (&scores)[32]) {
#pragma unroll
  for (unsigned k = 0; k < width / 16; ++k) {
    const unsigned at = k / 4 * BackTile<width>::kPanelBytes + k % 4 * 32;
    if (k == 0)
      set_product<T>(scores, descriptor(rows + at, 16), descriptor(cols + at, 16));
    else
      add_product<T>(scores, descriptor(rows + at, 16), descriptor(cols + at, 16));
  }
  close_products();
}

template <class T, int width>
__device__ inline void start_sums(const unsigned (&weights)[4][4], unsigned cols,
                                  float (&sums)[width / 2]) {
#pragma unroll
  for (unsigned k = 0; k < kCols / 16; ++k)
    add_product<T>(sums, weights[k], descriptor(cols + k * 2048, BackTile<width>::kPanelBytes));
}

template <class T>
__device__ inline void round_weights(const float (&from)[32], unsigned (&to)[4][4]) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[k][i] = round_pair<T>(from[k * 8 + i * 2], from[k * 8 + i * 2 + 1]);
}

// Scores become probabilities; what is hidden becomes 0.
template <bool turned>
__device__ inline void to_probabilities(const AttentionCall& call, int row, int col, bool edge,
                                        float factor, const float2 (&own)[2], unsigned lines,
                                        float (&p)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, keys = static_cast<int>(call.keys);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float2 logarithms;
    if constexpr (turned)
      logarithms = shared_pair(lines + static_cast<unsigned>(n * 8 + lane % 4 * 2) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float base = turned ? (i % 2 ? logarithms.y : logarithms.x) : own[i / 2].x;
      p[n * 4 + i] = power_of_two(fmaf(p[n * 4 + i], factor, -base));
      if (edge) {
        const int r = row + lane / 4 + i / 2 * 8, c = col + n * 8 + lane % 4 * 2 + i % 2;
        const int query = turned ? c : r, key = turned ? r : c;
        if (key >= keys || (call.causal && key > query)) p[n * 4 + i] = 0;
      }
    }
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

template <class T, int width, bool turned>
__device__ void compute_tiles(const AttentionCall& call, const Work<width, turned>& work) {
  const unsigned group = threadIdx.x / 128 - 1;
  const int row = work.first + static_cast<int>(threadIdx.x / 32 - 4) * 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool speaks = lane == 0;
  const float factor = static_cast<float>(call.scale) * kLog2E;
  const unsigned a = work.row_tile(0, group), a2 = work.row_tile(1, group);
  float2 own[2] = {};
  if constexpr (!turned)
    for (int half = 0; half < 2; ++half)
      own[half] = line_values(call, work.batch, work.owner, row + lane / 4 + half * 8);
  float sums[width / 2] = {}, sums2[turned ? width / 2 : 1] = {};
  float p[32], ds[32];
  unsigned weights[4][4], weights2[turned ? 4 : 1][4];
  const auto probabilities = [&](int step, unsigned stage) {
    const int col = work.col(step);
    const bool edge = (turned ? work.first + kRows : col + kCols) > static_cast<int>(call.keys) ||
                      (call.causal && (turned ? row + 16 > col : col + kCols > row));
    to_probabilities<turned>(call, row, col, edge, factor, own, work.lines(stage), p);
  };
  const auto add_up = [&](unsigned stage) {
    if constexpr (turned) start_sums<T, width>(weights2, work.col_tile(1, stage), sums2);
    start_sums<T, width>(weights, work.col_tile(0, stage), sums);
    close_products();
  };
  Ring ring;
  wait(work.rows_full(), 0);
  for (int step = 0; step < work.steps; ++step) {
    const unsigned stage = ring.stage;
    wait(work.full(stage), ring.parity);
    fence_registers();
    start_scores<T, width>(a, work.col_tile(0, stage), p);
    start_scores<T, width>(a2, work.col_tile(1, stage), ds);
    wait_for_products<1>();
    probabilities(step, stage);
    if constexpr (turned) round_weights<T>(p, weights2);
    wait_for_products<0>();
    to_gradients<turned>(p, own, work.lines(stage), ds);
    round_weights<T>(ds, weights);
    fence_registers();
    add_up(stage);
    wait_for_products<0>();
    if (speaks) arrive(work.empty(stage));
    ring.advance();
  }
  const int count = static_cast<int>(turned ? call.keys : call.queries);
  store_sums<T, width>(turned ? call.grad_key : call.grad_query, work.batch, work.owner, row, count,
                       call.head_size, static_cast<float>(call.scale), sums);
  if constexpr (turned)
    store_sums<T, width>(call.grad_value, work.batch, work.owner, row, count, call.value_size, 1.0f,
                         sums2);
}

template <class T, int width, bool turned>
__global__ void __launch_bounds__(kBlock, 1)
    attention_backward_hopper(const AttentionCall call, const __grid_constant__ BackMaps maps,
                              const TileOrder order) {
  extern __shared__ char shared[];
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
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x == 0) load_tiles(maps, work);
    if constexpr (turned)
      if (threadIdx.x / 32 == 1) load_lines(call, work);
  } else {
    take_registers<240>();
    compute_tiles<T, width, turned>(call, work);
  }
}

template <class T, int width, bool turned>
void launch_hopper(std::string_view op, int device, const AttentionCall& call,
                   const BackMaps& maps) {
  using Tile = BackTile<width>;
  const auto kernel = attention_backward_hopper<T, width, turned>;
  const int64_t lines = turned ? call.queries : call.keys;
  const int64_t owners = call.sequences * (turned ? call.groups : call.heads);
  const int64_t per_owner = turned ? lines * (call.heads / call.groups) : lines;
  const TileOrder order =
      tile_order(op, turned ? call.keys : call.queries, owners, per_owner * width * 4);
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Tile::kShared);
  Launch{op, device, Tile::kShared}(kernel, dim3(static_cast<unsigned>(order.total)), dim3(kBlock),
                                    call, maps, order);
}

}  // namespace

bool backward_on_hopper(std::string_view op, int device, const AttentionCall& call) {
  const int widest = std::max(call.head_size, call.value_size);
  if (widest > 128 || has_extras(call) || call.starts_q || call.keys == 0 || call.queries == 0)
    return false;
  BackMaps maps;
  const int64_t batch = call.sequences, q = call.queries, k = call.keys;
  if (!describe_boxes(call.query, call.head_size, q, call.heads, batch, 64, maps.query) ||
      !describe_boxes(call.grad, call.value_size, q, call.heads, batch, 64, maps.grad) ||
      !describe_boxes(call.key, call.head_size, k, call.groups, batch, 64, maps.key) ||
      !describe_boxes(call.value, call.value_size, k, call.groups, batch, 64, maps.value))
    return false;
  const auto run = [&]<class T, int width>() {
    launch_hopper<T, width, false>(op, device, call, maps);
    launch_hopper<T, width, true>(op, device, call, maps);
  };
  const bool narrow = widest <= 64;
  if (call.query.element == Element::bfloat16)
    narrow ? run.template operator()<BFloat16, 64>() : run.template operator()<BFloat16, 128>();
  else
    narrow ? run.template operator()<Half, 64>() : run.template operator()<Half, 128>();
  return true;
}

}  // namespace tensora::cuda
