#include <algorithm>
#include <type_traits>

#include "tensora/backend/cuda/loops/cluster.cuh"
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
// What runs once per launch is bound by reading its instructions: with several kernels by turns on
// a multiprocessor they come from the second-level cache. So code is kept short: no unrolling where
// it is not needed for registers, and kernels of their own for caches that have to be converted.

namespace tensora::cuda {
namespace {

constexpr int kStepParts = 8, kStepRows = kFewPagedRows;

template <int width>
constexpr int kStepTile = 2 * kPagedKeys * width * 2;  // bytes of keys and values
/// Queries and tiles; in their place, at the end, the sums of all warps and of the block.
template <int width>
constexpr int step_shared(int stages) {
  return std::max(kStepRows * width * 2 + stages * kStepTile<width>,
                  (kPagedThreads / 32 + 1) * kStepRows * (width + 4) * 4);
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
  float heads[kPagedThreads / 32][width];  // each warp's, on the way to a cache of another dtype
  alignas(16) T fresh[2][width];           // the new key and value
  float largest[kPagedThreads / 32][kStepRows], totals[kPagedThreads / 32][kStepRows];
  float part_largest[kStepRows], part_total[kStepRows];
  float factors[kStepRows][kStepParts];
};

/// What a lane knows of a head before it is there: a head's numbers lie `kEach` by lane.
template <int width>
struct StepLane {
  static constexpr int kEach = width / 32;
  float cosine[kEach], sine[kEach];  // of the token's position; what is not turned has 1 and 0
  float q_norm[kEach], k_norm[kEach];
  int partner;  // lane of the numbers that these are turned with

  __device__ StepLane(const StoreCall& store, long long position) {
    const int lane = static_cast<int>(threadIdx.x) % 32, half = store.turned / 2;
    const float* const angles = store.cos_sin + position * store.turned;
    const int first = lane * kEach;
    const bool turned = first < store.turned, upper = store.in_halves && first >= half;
    partner = !turned || !store.in_halves ? lane
              : upper                     ? lane - half / kEach
                                          : lane + half / kEach;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int angle = !store.in_halves ? (first + j) / 2 : first + j - (upper ? half : 0);
      const bool second = store.in_halves ? upper : j % 2 == 1;
      cosine[j] = turned ? angles[angle] : 1.0f;
      sine[j] = turned ? (second ? angles[half + angle] : -angles[half + angle]) : 0.0f;
      q_norm[j] = store.q_norm ? any_number(store.q_norm, store.q_norm_dtype, first + j) : 0.0f;
      k_norm[j] = store.k_norm ? any_number(store.k_norm, store.k_norm_dtype, first + j) : 0.0f;
    }
  }
  __device__ void normalise(const StoreCall& store, bool key, float (&head)[kEach]) const {
    float squares = 0;
#pragma unroll
    for (float x : head) squares = fmaf(x, x, squares);
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(store.size) + store.eps);
    // Chosen, not indexed: arrays that are indexed do not stay in registers.
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      head[j] *= factor * ((key ? k_norm[j] : q_norm[j]) + store.unit_offset);
  }
  __device__ void turn(const StoreCall& store, float (&head)[kEach]) const {
    float other[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      other[j] = store.in_halves ? __shfl_sync(kWholeWarp, head[j], partner) : head[j ^ 1];
#pragma unroll
    for (int j = 0; j < kEach; ++j) head[j] = fmaf(head[j], cosine[j], other[j] * sine[j]);
  }
};

/// A lane's numbers of a head as they lie in memory.
template <int width>
using StepWords = std::conditional_t<width == 128, uint2, unsigned>;

template <class T, int width>
__device__ inline StepWords<width> packed(const float (&head)[width / 32]) {
  if constexpr (width == 128)
    return {round_pair<T>(head[0], head[1]), round_pair<T>(head[2], head[3])};
  else
    return round_pair<T>(head[0], head[1]);
}

/// The new key or value, for this block's tile and for the cache.
template <class T, int width, PagedCache cache>
__device__ inline void store_fresh(const StepCall& call, bool value, long long slot, int group,
                                   const float (&head)[width / 32], StepMemory<T, width>& memory) {
  const StoreCall& store = call.store;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const auto words = packed<T, width>(head);
  reinterpret_cast<StepWords<width>*>(memory.fresh[value])[lane] = words;
  if (slot < 0) return;
  const int shift = call.attention.block_shift;
  const int64_t row =
      (((slot >> shift) * store.kv_heads + group) << shift) + (slot & (store.block_size - 1));
  char* const to = value ? store.values : store.keys;
  if constexpr (cache == PagedCache::plain) {
    reinterpret_cast<StepWords<width>*>(to)[row * 32 + lane] = words;
  } else {
#pragma unroll
    for (int j = 0; j < width / 32; ++j) memory.heads[warp][lane * (width / 32) + j] = head[j];
    __syncwarp();
    store_cached(store, to, row, memory.heads[warp]);
  }
}

/// Queries into their tile; in the block of the last keys, the new key and value too.
template <class T, int width, PagedCache cache>
__device__ inline void prepare_heads(const StepCall& call, const StepLane<width>& of_lane,
                                     int64_t token, long long slot, int group, bool last,
                                     char* queries, StepMemory<T, width>& memory) {
  const StoreCall& store = call.store;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int shared = store.heads / store.kv_heads, all = store.heads + 2 * store.kv_heads;
  // All that a warp has to read is on its way before the first of it is used.
  constexpr int kWarps = kPagedThreads / 32, kEach = width / 32;
  using Words = StepWords<width>;
  const int count = shared + (last ? 2 : 0);
  const auto* const from = reinterpret_cast<const Words*>(store.qkv) + token * all * 32 + lane;
  const auto read = [&](int i) {
    const int number = i == shared + 1 ? store.heads + store.kv_heads + group
                       : i == shared   ? store.heads + group
                                       : group * shared + i;
    return i < count ? __ldcg(from + number * 32) : Words{};
  };
  Words ahead[2] = {read(warp), read(warp + kWarps)};
#pragma unroll 1
  for (int i = warp; i < count; i += kWarps) {
    const bool key = i == shared, value = i == shared + 1;
    float head[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      head[j] = static_cast<float>(reinterpret_cast<const T*>(&ahead[0])[j]);
    ahead[0] = ahead[1];
    ahead[1] = read(i + 2 * kWarps);
    if (!value) {
      if (key ? store.k_norm : store.q_norm) of_lane.normalise(store, key, head);
      of_lane.turn(store, head);
    }
    if (key || value) {
      store_fresh<T, width, cache>(call, value, slot, group, head, memory);
    } else {
      const auto at = static_cast<unsigned>(lane * kEach);
      *reinterpret_cast<Words*>(queries + chunk_at<width>(static_cast<unsigned>(i), at / 8) +
                                at % 8 * 2) = packed<T, width>(head);
    }
  }
}

// The four warps' results, brought together as this block's part: into `sums`, row after row.
template <class T, int width>
__device__ inline void join_step_warps(int rows, float* sums, StepMemory<T, width>& memory,
                                       const PagedState<width>& state) {
  constexpr int kPitch = width + 4, kWarps = kPagedThreads / 32;
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
#pragma unroll 1
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
#pragma unroll 1
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
#pragma unroll 1
  for (int i = part * kPagedThreads + static_cast<int>(threadIdx.x); i < rows * width;
       i += kStepParts * kPagedThreads) {
    const int row = i / width, col = i % width;
    float sum = 0;
    for (int p = 0; p < parts; ++p)
      sum = fmaf(number_of_block(sums + row * kPitch + col, p), memory.factors[row][p], sum);
    reinterpret_cast<T*>(call.attention.out)[first + i] = store_value<T>(sum);
  }
}

template <class T, int width, PagedCache cache>
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
  const bool inside = slot >= -1 && slot < call.store.places;
  if (!inside && threadIdx.x == 0)
    note_fault(call.store.fault, call.store.op, call.store.slot_sentence, slot, call.store.places,
               0);
  const int rows = call.store.heads / call.store.kv_heads;
  const StepPart range(place.first_seen(attention, 0), place.length, part);
  const bool last = part == max(range.parts - 1, 0);
  // Whether the new key is the last one that is seen.
  const int newest = place.length - 1;
  const bool fresh =
      last && newest >= 0 &&
      slot == (int64_t{place.blocks[newest >> attention.block_shift]} << attention.block_shift) +
                  (newest & attention.block_size - 1);
  const int end = fresh ? newest : range.end;
  const int steps =
      part < range.parts ? (range.end - range.begin + kPagedKeys - 1) / kPagedKeys : 0;
  const auto queries = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto tile = [&](int step) {
    return kStepRows * width * 2 + step % call.stages * kStepTile<width>;
  };
  const auto request = [&](int step) {
    if (step < steps)
      request_keys<T, width, cache>(attention, place, range.begin + step * kPagedKeys, end,
                                    queries + static_cast<unsigned>(tile(step)));
    close_copies();
  };
#pragma unroll 1
  for (int step = 0; step < call.stages; ++step) request(step);
  const long long position =
      checked_index(call.store.positions[min(token, call.store.tokens - 1)],
                    {call.store.op, call.store.fault, 0, call.store.known_positions, 0});
  const StepLane<width> of_lane(call.store, max(position, 0ll));
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kStepRows * width / 8; i += kPagedThreads)
    reinterpret_cast<uint4*>(shared)[i] = {};
  __syncthreads();
  wait_for_previous();
  if (place.queries != 1 || (range.parts <= 1 && part > 0)) return;  // with all it would meet
  prepare_heads<T, width, cache>(call, of_lane, token, inside ? slot : -1, group, last, shared,
                                 memory);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int seen_to[2], lowest[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool used = lane / 4 + half * 8 < rows;
    seen_to[half] = used ? range.end - 1 : -1;
    lowest[half] = used ? place.first_seen(attention, 0) : 0;
  }
  PagedState<width> state;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (call.stages > 1)
      wait_for_copies<1>();
    else
      wait_for_copies<0>();
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
    request(step + call.stages);
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
void launch_step(std::string_view op, int device, StepCall call) {
  const auto kernel = is_16_bits_of<T>(call.attention.cache_dtype)
                          ? attend_step<T, width, PagedCache::plain>
                          : attend_step<T, width, PagedCache::any>;
  // With one tile a block fits beside one of the products before it, and can begin early.
  call.stages = call.attention.max_length <= kStepParts * kPagedKeys ? 1 : 2;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), step_shared<width>(2));
  prefer_shared_memory(device, reinterpret_cast<const void*>(kernel), kStepSharedPercent);
  Launch{op, device, static_cast<unsigned>(step_shared<width>(call.stages)), true}(
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
