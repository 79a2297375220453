#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/paged/paged_heads.cuh"
#include "tensora/ops/paged/paged_self_attention_call.h"
#include "tensora/ops/paged/paged_tiles.cuh"

// Note [Attention of one step]
// When tokens are made one by one, a layer's attention is little work in a long chain: split qkv,
// norms, rotation, write to the cache, scores, sums, sums of parts. Here one kernel does it all. A
// cluster of eight blocks has the heads of one sequence that share keys; each block takes a part of
// the keys, and computes the queries for itself. The block of the last part also makes the new key
// and value, stores them, and puts them into its tile. At the end the blocks read one another's
// results from shared memory, each for its share of the numbers.
// Before the previous kernel has ended a block reads what describes the step (positions, slots,
// lengths, tables) and requests the keys of earlier steps: where kernels begin early, the kernels
// of one step do, and none of them writes these.

namespace tensora::cuda {
namespace {

constexpr int kStepParts = 8, kStepRows = kFewPagedRows, kStepStages = 2;

template <int width>
constexpr int kStepTile = 2 * kPagedKeys * width * 2;  // bytes of keys and values
template <int width>
constexpr int kStepShared = kStepRows * width * 2 + kStepStages * kStepTile<width>;

__device__ inline void join_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
/// A number in the shared memory of the cluster's block `rank`, where `own` is in this block's.
__device__ inline float number_of_block(const float* own, int rank) {
  unsigned address;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(own))), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

/// The keys of one block of a cluster.
struct StepPart {
  int begin, end, parts;
  __device__ StepPart(int first, int length, int part) {
    const int all = max(length - first, 0);
    const int each = max((all + kStepParts - 1) / kStepParts + kPagedKeys - 1, kPagedKeys) /
                     kPagedKeys * kPagedKeys;
    parts = (all + each - 1) / each;
    begin = first + part * each;
    end = min(begin + each, length);
  }
};

/// What all threads of a block share beside the tiles.
template <class T, int width>
struct StepMemory {
  float heads[kPagedThreads / 32][width];  // each warp's
  float angles[width];
  alignas(16) T fresh[2][width];  // the new key and value
  float largest[kPagedThreads / 32][kStepRows], totals[kPagedThreads / 32][kStepRows];
  float part_largest[kStepRows], part_total[kStepRows];
  float factors[kStepRows][kStepParts];
};

// A query's head, for the tile of queries.
template <class T, int width>
__device__ inline void put_query(char* tile, int row, const float* head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int d = 2 * lane; d < width; d += 64)
    *reinterpret_cast<unsigned*>(
        tile + chunk_at<width>(static_cast<unsigned>(row), static_cast<unsigned>(d / 8)) +
        d % 8 * 2) = round_pair<T>(head[d], head[d + 1]);
}

/// Queries into their tile; in the block of the last keys, the new key and value too.
template <class T, int width>
__device__ inline void prepare_heads(const StepCall& call, int64_t token, long long slot, int group,
                                     bool last, char* queries, StepMemory<T, width>& memory) {
  const StoreCall& store = call.store;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int shared = store.heads / store.kv_heads, all = store.heads + 2 * store.kv_heads;
  const bool inside = slot >= -1 && slot < store.places;
  if (!inside && threadIdx.x == 0)
    note_fault(store.fault, store.op, store.slot_sentence, slot, store.places, 0);
  // All that a warp has to read is on its way before the first of it is used.
  constexpr int kWarps = kPagedThreads / 32, kEach = width / 32, kAhead = 2;
  const auto number_of = [&](int i) {
    return i == shared + 1 ? store.heads + store.kv_heads + group
           : i == shared   ? store.heads + group
                           : group * shared + i;
  };
  const int count = shared + (last ? 2 : 0);
  T ahead[kAhead][kEach];
  const auto read = [&](int i, T(&to)[kEach]) {
    const auto* const from =
        reinterpret_cast<const T*>(store.qkv) + (token * all + number_of(i)) * width;
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (i < count) to[j] = from[lane + 32 * j];
  };
#pragma unroll
  for (int n = 0; n < kAhead; ++n) read(warp + n * kWarps, ahead[n]);
  float* const head = memory.heads[warp];
  for (int i = warp; i < count; i += kWarps) {
    const bool key = i == shared, value = i == shared + 1;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kEach; ++j) head[lane + 32 * j] = static_cast<float>(ahead[0][j]);
#pragma unroll
    for (int j = 0; j < kEach; ++j) ahead[0][j] = ahead[1][j];
    read(i + kAhead * kWarps, ahead[1]);
    __syncwarp();
    if (!value) {
      const void* const norm = key ? store.k_norm : store.q_norm;
      if (norm) normalise(store, norm, key ? store.k_norm_dtype : store.q_norm_dtype, head);
      turn(store, memory.angles, head);
    }
    if (!key && !value) {
      put_query<T, width>(queries, i, head);
      continue;
    }
#pragma unroll
    for (int d = lane; d < width; d += 32) memory.fresh[value][d] = store_value<T>(head[d]);
    if (inside && slot >= 0)
      store_cached(store, value ? store.values : store.keys, slot, group, head);
  }
}

// The four warps' results, brought together as this block's part: into `sums`, row after row.
template <class T, int width>
__device__ inline void join_step_warps(int rows, float* sums, StepMemory<T, width>& memory,
                                       const PagedState<width>& state) {
  constexpr int kPitch = width + 4, kWarps = kPagedThreads / 32;
  static_assert(kStepShared<width> >= (kWarps + 1) * kStepRows * kPitch * 4);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float* const all = sums + kStepRows * kPitch;  // warp, row, column
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    float total = state.total[half];
    total += __shfl_xor_sync(kWholeWarp, total, 1);
    total += __shfl_xor_sync(kWholeWarp, total, 2);
    if (lane % 4 == 0) {
      memory.largest[warp][row] = state.largest[half];
      memory.totals[warp][row] = total;
    }
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        all[(warp * kStepRows + row) * kPitch + n * 8 + lane % 4 * 2 + i] =
            state.sums[n][2 * half + i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kPagedThreads) {
    const int row = i / width, col = i % width;
    float most = kHidden, total = 0, sum = 0;
    for (int w = 0; w < kWarps; ++w) most = fmaxf(most, memory.largest[w][row]);
    const float base = most == kHidden ? 0.0f : most;
    for (int w = 0; w < kWarps; ++w) {
      const float factor = power_of_two(memory.largest[w][row] - base);
      total += memory.totals[w][row] * factor;
      sum += all[(w * kStepRows + row) * kPitch + col] * factor;
    }
    sums[row * kPitch + col] = sum;
    if (col == 0) memory.part_largest[row] = most, memory.part_total[row] = total;
  }
}

// The result, where one block has all keys.
template <class T, int width>
__device__ inline void store_step(const StepCall& call, int64_t token, int group, int rows,
                                  const float* sums, const StepMemory<T, width>& memory) {
  const int64_t first = (token * call.store.heads + int64_t{group} * rows) * width;
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kPagedThreads) {
    const float total = memory.part_total[i / width];
    const float sum = sums[i / width * (width + 4) + i % width];
    reinterpret_cast<T*>(call.attention.out)[first + i] =
        store_value<T>(total == 0 ? 0.0f : sum / total);
  }
}

// The parts of all blocks of the cluster, brought together: this block has every eighth hundred of
// the numbers.
template <class T, int width>
__device__ inline void join_step_parts(const StepCall& call, int64_t token, int group, int part,
                                       int parts, int rows, const float* sums,
                                       StepMemory<T, width>& memory) {
  constexpr int kPitch = width + 4;
  if (static_cast<int>(threadIdx.x) < rows) {
    const int row = static_cast<int>(threadIdx.x);
    float largest[kStepParts], totals[kStepParts], most = kHidden, total = 0;
#pragma unroll
    for (int p = 0; p < kStepParts; ++p) {
      largest[p] = p < parts ? number_of_block(memory.part_largest + row, p) : kHidden;
      totals[p] = p < parts ? number_of_block(memory.part_total + row, p) : 0.0f;
      most = fmaxf(most, largest[p]);
    }
#pragma unroll
    for (int p = 0; p < kStepParts; ++p) {
      largest[p] = largest[p] == kHidden ? 0.0f : power_of_two(largest[p] - most);
      total += totals[p] * largest[p];
    }
    const float share = total == 0 ? 0.0f : 1.0f / total;
#pragma unroll
    for (int p = 0; p < kStepParts; ++p) memory.factors[row][p] = largest[p] * share;
  }
  __syncthreads();
  const int64_t first = (token * call.store.heads + int64_t{group} * rows) * width;
  for (int i = part * kPagedThreads + static_cast<int>(threadIdx.x); i < rows * width;
       i += kStepParts * kPagedThreads) {
    const int row = i / width, col = i % width;
    float sum = 0;
    for (int p = 0; p < parts; ++p)
      sum = fmaf(number_of_block(sums + row * kPitch + col, p), memory.factors[row][p], sum);
    reinterpret_cast<T*>(call.attention.out)[first + i] = store_value<T>(sum);
  }
}

template <class T, int width>
__global__ void __cluster_dims__(kStepParts, 1, 1) __launch_bounds__(kPagedThreads, 4)
    attend_step(const __grid_constant__ StepCall call) {
  extern __shared__ __align__(128) char shared[];
  __shared__ StepMemory<T, width> memory;
  const PagedCall& attention = call.attention;
  const int part = static_cast<int>(blockIdx.x), group = static_cast<int>(blockIdx.y),
            sequence = static_cast<int>(blockIdx.z);
  begin_next();
  const PagedPlace place(attention, sequence, group);
  const int64_t token = place.first_query;
  const long long slot = call.store.slots[min(token, call.store.tokens - 1)];
  const int rows = call.store.heads / call.store.kv_heads;
  const StepPart range(place.first_seen(attention, 0), place.length, part);
  const bool last = part == max(range.parts - 1, 0);
  // Whether the new key is the last one that is seen.
  const int newest = place.length - 1;
  const bool fresh =
      last && newest >= 0 &&
      slot == int64_t{place.blocks[newest / attention.block_size]} * attention.block_size +
                  newest % attention.block_size;
  const int end = fresh ? newest : range.end;
  const int steps =
      part < range.parts ? (range.end - range.begin + kPagedKeys - 1) / kPagedKeys : 0;
  const auto queries = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto tile = [&](int step) {
    return kStepRows * width * 2 + step % kStepStages * kStepTile<width>;
  };
  const auto request = [&](int step) {
    if (step < steps)
      request_keys<T, width>(attention, place, range.begin + step * kPagedKeys, end,
                             queries + static_cast<unsigned>(tile(step)));
    close_copies();
  };
#pragma unroll
  for (int step = 0; step < kStepStages; ++step) request(step);
  const long long position =
      checked_index(call.store.positions[min(token, call.store.tokens - 1)],
                    {call.store.op, call.store.fault, 0, call.store.known_positions, 0});
  for (int i = static_cast<int>(threadIdx.x); i < call.store.turned; i += kPagedThreads)
    memory.angles[i] = call.store.cos_sin[max(position, 0ll) * call.store.turned + i];
  for (int i = static_cast<int>(threadIdx.x); i < kStepRows * width / 8; i += kPagedThreads)
    reinterpret_cast<uint4*>(shared)[i] = {};
  __syncthreads();
  wait_for_previous();
  if (place.queries != 1 || (range.parts <= 1 && part > 0)) return;  // with all it would meet
  prepare_heads<T, width>(call, token, slot, group, last, shared, memory);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int seen_to[2], lowest[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool inside = lane / 4 + half * 8 < rows;
    seen_to[half] = inside ? range.end - 1 : -1;
    lowest[half] = inside ? place.first_seen(attention, 0) : 0;
  }
  PagedState<width> state;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<kStepStages - 1>();
    __syncthreads();
    if (fresh && step == steps - 1) {
      const auto row = static_cast<unsigned>(newest - range.begin - step * kPagedKeys);
      for (int i = static_cast<int>(threadIdx.x); i < width / 4; i += kPagedThreads) {
        const int value = i / (width / 8), chunk = i % (width / 8);
        *reinterpret_cast<uint4*>(shared + tile(step) + value * kPagedKeys * width * 2 +
                                  chunk_at<width>(row, static_cast<unsigned>(chunk))) =
            reinterpret_cast<const uint4*>(memory.fresh[value])[chunk];
      }
      __syncthreads();
    }
    attend<T, width, 1>(attention, queries, queries + static_cast<unsigned>(tile(step)), warp * 16,
                        range.begin + step * kPagedKeys + warp * 16, seen_to, lowest, state);
    __syncthreads();  // the tile is no longer read
    request(step + kStepStages);
  }
  wait_for_copies<0>();
  __syncthreads();
  auto* const sums = reinterpret_cast<float*>(shared);
  join_step_warps<T, width>(rows, sums, memory, state);
  if (range.parts <= 1) {
    __syncthreads();
    return store_step<T, width>(call, token, group, rows, sums, memory);
  }
  join_cluster();
  join_step_parts<T, width>(call, token, group, part, range.parts, rows, sums, memory);
  join_cluster();  // no block may leave while others read its memory
}

template <class T, int width>
void launch_step(std::string_view op, int device, const StepCall& call) {
  const auto kernel = attend_step<T, width>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kStepShared<width>);
  prefer_shared_memory(device, reinterpret_cast<const void*>(kernel), kStepSharedPercent);
  Launch{op, device, kStepShared<width>, true}(
      kernel,
      dim3(kStepParts, static_cast<unsigned>(call.store.kv_heads),
           static_cast<unsigned>(call.attention.sequences)),
      dim3(kPagedThreads), call);
}

}  // namespace

void attend_one_step(std::string_view op, int device, const StepCall& call) {
  const bool wide = call.store.size == 128;
  if (call.store.dtype == DType::bfloat16)
    wide ? launch_step<BFloat16, 128>(op, device, call)
         : launch_step<BFloat16, 64>(op, device, call);
  else
    wide ? launch_step<Half, 128>(op, device, call) : launch_step<Half, 64>(op, device, call);
}

}  // namespace tensora::cuda
