#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/attention/attention_backward_hopper.cuh"
#include "tensora/ops/attention/attention_elements.cuh"

// Note [Attention backward in one pass]
// The second form of Note [Attention backward on Hopper], which also computes dQ: five products
// instead of seven, and every probability once. A block has 128 keys, 64 for each computing
// warpgroup, which holds its keys and values in registers, as left operands. What dS^T a warpgroup
// has rounded it also puts into shared memory. Two tiles later, so that nobody waits for the other,
// one of the warpgroups (they take turns) multiplies the tile's dS of all 128 keys with the keys
// and adds the product to a sum in global memory: in float, atomically, in the order in which the
// registers hold it, so that a warp adds 512 bytes in one piece. So bits may differ from run to
// run; is_deterministic() asks for the other kernel. Another kernel scales, rounds and stores.

namespace tensora::cuda::hopper::backward {
namespace {

using Keys = Work<64, true>;

constexpr unsigned kTile = BackTile<64>::kTileBytes;
constexpr unsigned kBuffers = 4;  // of dS: for the two tiles not yet multiplied, and two to come
constexpr unsigned kBarrierBytes = 2048;  // lines and barriers
constexpr unsigned kShared = (4 + 2 * kStages + 2 * kBuffers) * kTile + kBarrierBytes + 1024;
constexpr int kTileFloats = 64 * 64;  // of dQ

__device__ inline unsigned slopes(const Keys& work, unsigned buffer, unsigned group) {
  return work.memory + (4 + 2 * kStages) * kTile + kBarrierBytes + (buffer * 2 + group) * kTile;
}
__device__ inline unsigned slopes_full(const Keys& work, unsigned buffer) {
  return work.empty(kStages) + buffer * 8;
}
__device__ inline unsigned slopes_empty(const Keys& work, unsigned buffer) {
  return work.empty(kStages) + (kBuffers + buffer) * 8;
}

/// d (64 x 64) += a (64 x 16, in registers) @ b^T (b: 64 x 16, k along its rows); the first of a
/// sum does not read d.
template <class T, bool first>
__device__ inline void multiply_rows(float (&d)[32], const unsigned (&a)[4], uint64_t b) {
  if constexpr (is_bfloat16_type<T> && first)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, 0, 1, 1, 0;\n"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
          "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]),
          "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]),
          "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else if constexpr (is_bfloat16_type<T>)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else if constexpr (first)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, 0, 1, 1, 0;\n"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
          "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]),
          "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]),
          "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/// d (64 x 64) += a^T @ b (both 16 x 64, in shared memory, k across their rows); likewise.
template <class T, bool first>
__device__ inline void multiply_turned(float (&d)[32], uint64_t a, uint64_t b) {
  if constexpr (is_bfloat16_type<T> && first)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, 0, 1, 1, 1, 1;\n"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
          "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]),
          "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]),
          "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
        : "l"(a), "l"(b));
  else if constexpr (is_bfloat16_type<T>)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, 1, 1, 1, 1, 1;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
  else if constexpr (first)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, 0, 1, 1, 1, 1;\n"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
          "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]),
          "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]),
          "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
        : "l"(a), "l"(b));
  else
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, 1, 1, 1, 1, 1;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}

/// rows @ cols^T.
template <class T>
__device__ inline void start_scores(const unsigned (&rows)[4][4], unsigned cols,
                                    float (&scores)[32]) {
  const uint64_t first = descriptor(cols, 16);
  multiply_rows<T, true>(scores, rows[0], first);
#pragma unroll
  for (unsigned k = 1; k < 4; ++k) multiply_rows<T, false>(scores, rows[k], first + k * (32 >> 4));
  close_products();
}

/// dQ of a tile: its dS of both warpgroups' keys with these keys.
template <class T>
__device__ inline void start_query_sums(const Keys& work, unsigned step, float (&sums)[32]) {
  const unsigned buffer = step % kBuffers;
  wait_for_barrier(slopes_full(work, buffer), step / kBuffers % 2);
  fence_registers();
  // The tiles of the second warpgroup's keys lie behind those of the first.
  const uint64_t left = descriptor(slopes(work, buffer, 0), kTile);
  const uint64_t right = descriptor(work.row_tile(0, 0), kTile);
  multiply_turned<T, true>(sums, left, right);
#pragma unroll
  for (unsigned k = 1; k < 8; ++k)
    multiply_turned<T, false>(sums, left + k * (2048 >> 4), right + k * (2048 >> 4));
  close_products();
}

/// Adds a product in the order of the registers; `tile` counts through all heads.
__device__ inline void add_query_sums(const float (&sums)[32], float* all, int64_t tile) {
  float* const to = all + tile * kTileFloats + threadIdx.x % 128 * 4;
#pragma unroll
  for (int n = 0; n < 8; ++n)
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + n * 512),
                 "f"(sums[n * 4]), "f"(sums[n * 4 + 1]), "f"(sums[n * 4 + 2]), "f"(sums[n * 4 + 3])
                 : "memory");
}

/// A warpgroup's rounded dS^T, rows of 64 queries, for the products with the keys.
__device__ inline void store_slopes(const Keys& work, unsigned step, unsigned group,
                                    const unsigned (&weights)[4][4]) {
  const unsigned buffer = step % kBuffers, lane = threadIdx.x % 32;
  const unsigned row = threadIdx.x / 32 % 4 * 16 + lane % 16;
  wait_for_barrier(slopes_empty(work, buffer), (step / kBuffers % 2) ^ 1);
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     slopes(work, buffer, group) + chunk_at<64>(row, k * 2 + lane / 16)),
                 "r"(weights[k][0]), "r"(weights[k][1]), "r"(weights[k][2]), "r"(weights[k][3])
                 : "memory");
  fence_copies();
  __syncwarp();
  if (lane == 0) arrive(slopes_full(work, buffer));
}

/// What a computing warpgroup holds from tile to tile.
struct Held {
  unsigned keys[4][4], values[4][4];  // as left operands
  float grad_keys[32] = {}, grad_values[32] = {};
};

__device__ inline Held hold_rows(const Keys& work, unsigned group) {
  const unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
  Held held;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    const unsigned at = chunk_at<64>(row, k * 2 + lane / 16);
    load_matrices(held.keys[k], work.row_tile(0, group) + at);
    load_matrices(held.values[k], work.row_tile(1, group) + at);
  }
  return held;
}

/// The tiles of queries in the order of the steps: where the present one begins, and the numbers,
/// counted through all heads, of it and of the two before.
struct Walk {
  int col, left, tile[3];

  __device__ Walk(const AttentionCall& call, const Keys& work)
      : col(work.begin * kCols), left(work.per_head) {
    const int tiles = (static_cast<int>(call.queries) + kCols - 1) / kCols;
    tile[0] = (work.batch * call.heads + work.owner * work.per_group) * tiles + work.begin;
  }
  __device__ void advance(const Keys& work) {
    tile[2] = tile[1];
    tile[1] = tile[0]++;
    col += kCols;
    if (--left > 0) return;
    left = work.per_head;
    col = work.begin * kCols;
    tile[0] += work.begin;  // every head ends with its last tile
  }
};

/// One tile of queries; `sums_too`: and dQ of the tile two before.
template <class T, bool sums_too>
__device__ inline void compute_tile(const AttentionCall& call, const Keys& work, const Walk& walk,
                                    unsigned step, unsigned stage, unsigned group,
                                    float* query_sums, Held& held) {
  const int row = work.first + static_cast<int>(threadIdx.x / 32 - 4) * 16;
  const float factor = static_cast<float>(call.scale) * kLog2E;
  const float2 own[2] = {};
  float p[32], ds[32], sums[32];
  unsigned weights[4][4], weights2[4][4];
  fence_registers();
  start_scores<T>(held.keys, work.col_tile(0, stage), p);
  start_scores<T>(held.values, work.col_tile(1, stage), ds);
  if constexpr (sums_too) start_query_sums<T>(work, step - 2, sums);
  wait_for_products<sums_too ? 2 : 1>();
  to_probabilities<true>(factor, own, work.lines(stage), p);
  if (work.first + kRows > static_cast<int>(call.keys) || (call.causal && row + 16 > walk.col))
    hide<true>(call, row, walk.col, p);
  round_weights<T>(p, weights2);
  wait_for_products<sums_too ? 1 : 0>();
  to_gradients<true>(p, own, work.lines(stage), ds);
  round_weights<T>(ds, weights);
  store_slopes(work, step, group, weights);
  fence_registers();
  start_sums<T, 64>(weights2, work.col_tile(1, stage), held.grad_values);
  start_sums<T, 64>(weights, work.col_tile(0, stage), held.grad_keys);
  close_products();
  if constexpr (sums_too) {
    wait_for_products<1>();
    if (threadIdx.x % 32 == 0) arrive(slopes_empty(work, (step - 2) % kBuffers));
    add_query_sums(sums, query_sums, walk.tile[2]);
  }
  wait_for_products<0>();
}

template <class T>
__device__ void compute_tiles(const AttentionCall& call, const Keys& work, float* query_sums) {
  const unsigned group = __shfl_sync(~0u, threadIdx.x / 128 - 1, 0);  // the same in all lanes
  const unsigned steps = static_cast<unsigned>(work.steps);
  Walk walk(call, work);
  wait_for_barrier(work.rows_full(), 0);
  Held held = hold_rows(work, group);
  Ring ring;
  for (unsigned step = 0; step < steps; ++step) {
    wait_for_barrier(work.full(ring.stage), ring.parity);
    if (step >= 2 && step % 2 == group)
      compute_tile<T, true>(call, work, walk, step, ring.stage, group, query_sums, held);
    else
      compute_tile<T, false>(call, work, walk, step, ring.stage, group, query_sums, held);
    if (threadIdx.x % 32 == 0) arrive(work.empty(ring.stage));
    ring.advance();
    walk.advance(work);
  }
  // Of the last two tiles each warpgroup has one.
  const unsigned last = steps % 2 == group ? 2 : 1;
  if (steps >= last) {
    float sums[32];
    start_query_sums<T>(work, steps - last, sums);
    wait_for_products<0>();
    add_query_sums(sums, query_sums, last == 2 ? walk.tile[2] : walk.tile[1]);
  }
  const int row = work.first + static_cast<int>(threadIdx.x / 32 - 4) * 16;
  const int count = static_cast<int>(call.keys);
  store_sums<T, 64>(call.grad_key, work.batch, work.owner, row, count, call.head_size,
                    static_cast<float>(call.scale), held.grad_keys);
  store_sums<T, 64>(call.grad_value, work.batch, work.owner, row, count, call.value_size, 1.0f,
                    held.grad_values);
}

template <class T>
__global__ void __launch_bounds__(kBlock, 1)
    attention_backward_one_pass(const AttentionCall call, const __grid_constant__ BackMaps maps,
                                const TileOrder order, float* query_sums) {
  extern __shared__ char shared[];
  const Keys work = begin_work<64, true>(call, order, shared);
  if (threadIdx.x == 0) {
    for (unsigned buffer = 0; buffer < kBuffers; ++buffer) {
      init_barrier(slopes_full(work, buffer), 8);
      init_barrier(slopes_empty(work, buffer), 4);
    }
    fence_barriers();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x == 0) load_tiles(maps, work);
    if (threadIdx.x / 32 == 1) load_lines(call, work);
  } else {
    take_registers<240>();
    compute_tiles<T>(call, work, query_sums);
  }
}

// A block has a tile of 64 queries, and a thread 8 columns of two of them, 8 rows apart: the four
// threads whose registers had these columns lie side by side.
template <class T>
__global__ void __launch_bounds__(256)
    store_query_gradients(const AttentionCall call, const float* query_sums, int tiles) {
  const int tile = static_cast<int>(blockIdx.x) % tiles;
  const int head = static_cast<int>(blockIdx.x) / tiles % call.heads;
  const int batch = static_cast<int>(blockIdx.x) / tiles / call.heads;
  const int chunk = static_cast<int>(threadIdx.x) % 8, line = static_cast<int>(threadIdx.x) / 8;
  if (chunk * 8 >= call.head_size) return;
  const float* const from =
      query_sums + int64_t{blockIdx.x} * kTileFloats + chunk * 512 + line * 16;
  const float scale = static_cast<float>(call.scale);
  uint4 rows[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 four = *reinterpret_cast<const float4*>(from + i * 4);
    (&rows[0].x)[i] = round_pair<T>(four.x * scale, four.y * scale);
    (&rows[1].x)[i] = round_pair<T>(four.z * scale, four.w * scale);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = tile * kCols + line / 8 * 16 + line % 8 + half * 8;
    const Array4& out = call.grad_query;
    if (row < call.queries)
      *reinterpret_cast<uint4*>(out.data + (batch * out.strides[0] + head * out.strides[1] +
                                            row * out.strides[2] + chunk * 8) *
                                               2) = rows[half];
  }
}

// Heads come together that fit the L2 cache, but so many that the longest rows of causal tiles, at
// the begin of each such section, are a small part of a multiprocessor's share of it.
TileOrder order_of(std::string_view op, int device, const AttentionCall& call) {
  const int64_t owners = call.sequences * call.groups;
  TileOrder order =
      tile_order(op, call.keys, owners, call.queries * (call.heads / call.groups) * 64 * 8);
  const int64_t least = 3 * device_info(device).multiprocessors / order.tiles;
  const int64_t sections =
      std::max<int64_t>(1, owners / std::max<int64_t>(least, order.heads_together));
  order.heads_together = static_cast<int>((owners + sections - 1) / sections);
  return order;
}

template <class T>
void launch(std::string_view op, int device, const AttentionCall& call, const BackMaps& maps) {
  const int64_t tiles = (call.queries + kCols - 1) / kCols;
  const unsigned blocks = grid_of(op, call.sequences * call.heads * tiles);
  const size_t bytes = size_t{blocks} * kTileFloats * sizeof(float);
  const Scratch sums(device, bytes);
  const auto query_sums = reinterpret_cast<float*>(sums.data());
  check_cuda(cudaMemsetAsync(query_sums, 0, bytes, current_stream(device)), op);
  const TileOrder order = order_of(op, device, call);
  const auto kernel = attention_backward_one_pass<T>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kShared);
  Launch{op, device, kShared}(kernel, dim3(static_cast<unsigned>(order.total)), dim3(kBlock), call,
                              maps, order, query_sums);
  Launch{op, device}(store_query_gradients<T>, dim3(blocks), dim3(256), call, query_sums,
                     static_cast<int>(tiles));
}

}  // namespace

void backward_in_one_pass(std::string_view op, int device, const AttentionCall& call,
                          const BackMaps& maps) {
  if (call.query.element == Element::bfloat16)
    launch<BFloat16>(op, device, call, maps);
  else
    launch<Half>(op, device, call, maps);
}

}  // namespace tensora::cuda::hopper::backward
