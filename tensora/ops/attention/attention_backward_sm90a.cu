#include "tensora/core/determinism.h"
#include "tensora/ops/attention/attention_backward_hopper.cuh"

// Note [Attention backward on Hopper]
// The two forms of Note [Attention backward on tensor cores], by wgmma: a block has 128 rows, 64
// for each of two computing warpgroups, and a ring of tiles of 64 columns that one thread fills by
// TMA. Scores and products with the values are sums of wgmma with both operands in shared memory; P
// and dS are rounded in registers and are the left operands of the products that follow. One
// warpgroup's products run while the other computes probabilities; to start the next scores before
// these products are complete was measured to be slower, for want of registers. The queries'
// logarithms and deltas that belong to the columns of the second form are copied by a warp of their
// own. Heads of 64 and less run so only if the same bits are asked for: otherwise see
// Note [Attention backward in one pass].

namespace tensora::cuda {
namespace {

using namespace hopper;
using namespace hopper::backward;

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
    to_probabilities<turned>(factor, own, work.lines(stage), p);
    if (edge) hide<turned>(call, row, col, p);
  };
  const auto add_up = [&](unsigned stage) {
    if constexpr (turned) start_sums<T, width>(weights2, work.col_tile(1, stage), sums2);
    start_sums<T, width>(weights, work.col_tile(0, stage), sums);
    close_products();
  };
  Ring ring;
  wait_for_barrier(work.rows_full(), 0);
  for (int step = 0; step < work.steps; ++step) {
    const unsigned stage = ring.stage;
    wait_for_barrier(work.full(stage), ring.parity);
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
  const Work<width, turned> work = begin_work<width, turned>(call, order, shared);
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
  if (narrow && !is_deterministic()) {
    backward_in_one_pass(op, device, call, maps);
    return true;
  }
  if (call.query.element == Element::bfloat16)
    narrow ? run.template operator()<BFloat16, 64>() : run.template operator()<BFloat16, 128>();
  else
    narrow ? run.template operator()<Half, 64>() : run.template operator()<Half, 128>();
  return true;
}

}  // namespace tensora::cuda
