#pragma once

// Internal header

#include <algorithm>

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/paged/paged_decode_tiles.cuh"

// Note [Paged attention of few queries]
// As in Note [Attention of few queries], the queries of all heads that share keys are the rows of
// one tile of 16. Of each tile of 64 keys a warp takes 16, which it requests for itself, some tiles
// ahead: warps wait for their own copies only, and meet where a sequence or a share ends
// (Note [Division of decode attention]).

namespace tensora::cuda {

/// What a block leaves of a sequence and head whose other keys belong to other blocks.
struct JoinTask {
  int first_query, queries, first_head, first_row, rows;
  int block, count;  // the first block, and how many there are; 1: nothing to join
};

struct PagedParts {
  float *sums, *largest, *totals;  // per slot and row
  JoinTask* tasks;                 // per sequence and head, or per block if these are fewer
  bool per_block;
};

/// The slot of the `number`-th block of a task: a block has one slot for the sequence that it
/// continues, and one for the sequence that it begins.
__device__ inline int64_t slot_of(int first_block, int number) {
  return number == 0 ? 2 * int64_t{first_block} + 1 : 2 * int64_t{first_block + number};
}

/// The line of the result, T H, that row `row` of a key/value head stands for.
__device__ inline int64_t line_of_row(int heads, int first_query, int queries, int first_head,
                                      int row) {
  return int64_t{first_query + row % queries} * heads + first_head + row / queries;
}

template <int width>
inline constexpr int kJoinPitch = width + 4;

/// What the warps of a block leave one another, behind their tiles.
template <int width>
struct DecodeMemory {
  float largest[kDecodeWarps][kDecodeRows], totals[kDecodeWarps][kDecodeRows];
  float sums[1][kJoinPitch<width>];  // as many as there are warps times rows

  __host__ __device__ static constexpr int bytes(int rows) {
    return static_cast<int>(sizeof(DecodeMemory)) +
           (kDecodeWarps * rows - 1) * kJoinPitch<width> * 4;
  }
};
template <int width, DecodeCache cache>
constexpr int decode_shared(int stages, int rows) {
  return kDecodeWarps * decode_warp_bytes<width, cache>(stages) + DecodeMemory<width>::bytes(rows);
}

/// A warp's queries of one sequence and head, as the tensor cores take them, and what they see.
template <class T, int width>
struct DecodeQueries {
  unsigned parts[width / 16][4];
  int position[2], lowest[2];  // of rows lane / 4 and 8 more

  __device__ void read(const PagedCall& call, const DecodeGrid& grid, const DecodeCursor& at) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int per_group = call.heads / call.groups;
    const int first_row = at.head % grid.row_tiles * kDecodeRows;
    const int first_head = at.head / grid.row_tiles * per_group;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + lane / 4 + half * 8;
      const bool used = lane / 4 + half * 8 < grid.rows && row < at.of.queries * per_group;
      const int query = used ? row % at.of.queries : 0;
      position[half] = used ? at.of.position(query) : -1;
      lowest[half] = used ? at.of.first_seen(call, query) : 0;
      const int64_t line =
          used ? line_of_row(call.heads, at.of.first_query, at.of.queries, first_head, row) : 0;
      const char* const from = call.query + line * call.size * 2 + lane % 4 * 4;
#pragma unroll
      for (int k = 0; k < width / 16; ++k)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const bool inside = used && k * 16 + i * 8 < call.size;
          parts[k][half + 2 * i] =
              inside ? *reinterpret_cast<const unsigned*>(from + (k * 16 + i * 8) * 2) : 0u;
        }
    }
  }
};

/// Attends to a warp's 16 keys, from position `first` on.
template <class T, int width>
__device__ inline void attend_warp(const PagedCall& call, const DecodeQueries<T, width>& queries,
                                   unsigned keys, int first, PagedState<width>& state) {
  const unsigned lane = threadIdx.x % 32;
  float scores[2][4] = {};
#pragma unroll
  for (unsigned k = 0; k < width / 16; ++k) {
    unsigned right[4];
    load_matrices(right, keys + chunk_at<width>(lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
    multiply_add<T>(scores[0], queries.parts[k], right[0], right[1]);
    multiply_add<T>(scores[1], queries.parts[k], right[2], right[3]);
  }
  if (call.softcap > 0) cap_scores(call, scores);
  const float scale = call.softcap > 0 ? 1.0f : call.scale;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = state.largest[half];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      const int key = first + i / 2 * 8 + static_cast<int>(lane % 4) * 2 + i % 2;
      score *= scale;
      if (key > queries.position[half] || key < queries.lowest[half]) score = kHidden;
      largest = fmaxf(largest, score);
    }
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 2));
    const float base = largest == kHidden ? 0.0f : largest;
    const float shrink = power_of_two(state.largest[half] - base);
    state.largest[half] = largest;
    float total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      score = power_of_two(score - base);
      total += score;
    }
    state.total[half] = state.total[half] * shrink + total;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      state.sums[n][2 * half] *= shrink;
      state.sums[n][2 * half + 1] *= shrink;
    }
  }
  unsigned left[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    left[i] = round_pair<T>(scores[i / 2][i % 2 * 2], scores[i / 2][i % 2 * 2 + 1]);
  const unsigned values = keys + kWarpKeys * width * 2;
#pragma unroll
  for (unsigned n = 0; n < width / 16; ++n) {
    unsigned right[4];
    load_transposed(right, values + chunk_at<width>(lane % 16, n * 2 + lane / 16));
    multiply_add<T>(state.sums[2 * n], left, right[0], right[1]);
    multiply_add<T>(state.sums[2 * n + 1], left, right[2], right[3]);
  }
}

/// Shows a warp's sums to the other warps.
template <int width>
__device__ inline void show_warp(int rows, DecodeMemory<width>& memory,
                                 const PagedState<width>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
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
    float* const sums = memory.sums[warp * rows + row] + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
      *reinterpret_cast<float2*>(sums + n * 8) = {state.sums[n][2 * half],
                                                  state.sums[n][2 * half + 1]};
  }
}

/// Four columns of a row, of all warps.
struct DecodeSums {
  float largest = kHidden, total = 0;
  float4 sums = {};

  template <int width>
  __device__ DecodeSums(const DecodeMemory<width>& memory, int rows, int row, int col) {
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) largest = fmaxf(largest, memory.largest[w][row]);
    if (largest == kHidden) return;
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float factor = power_of_two(memory.largest[w][row] - largest);
      const float4 own = *reinterpret_cast<const float4*>(memory.sums[w * rows + row] + col);
      total = fmaf(memory.totals[w][row], factor, total);
      sums = {fmaf(own.x, factor, sums.x), fmaf(own.y, factor, sums.y), fmaf(own.z, factor, sums.z),
              fmaf(own.w, factor, sums.w)};
    }
  }
};

/// Writes what the block has of the sequence and head at `at`: results where it has all of the
/// keys, otherwise a part.
template <class T, int width>
__device__ inline void leave_decode_part(const PagedCall& call, const DecodeGrid& grid,
                                         const PagedParts& parts, const DecodeShare& share,
                                         const DecodeCursor& at, int tile_of_line,
                                         const DecodeMemory<width>& memory) {
  const int per_group = call.heads / call.groups;
  const int first_row = at.head % grid.row_tiles * kDecodeRows;
  const int first_head = at.head / grid.row_tiles * per_group;
  const int rows = min(at.of.queries * per_group - first_row, grid.rows);
  const int begin = tile_of_line - at.tile, end = begin + at.of.tiles;
  const bool begins = begin >= share.begin, whole = begins && end <= share.end;
  const int block = static_cast<int>(blockIdx.x);
  const int64_t slot = 2 * int64_t{block} + (begins ? 1 : 0);
  for (int i = static_cast<int>(threadIdx.x); i < rows * width / 4; i += kPagedThreads) {
    const int row = i / (width / 4), col = i % (width / 4) * 4;
    const DecodeSums all(memory, grid.rows, row, col);
    if (whole) {
      if (col >= call.size) continue;
      const int64_t line =
          line_of_row(call.heads, at.of.first_query, at.of.queries, first_head, first_row + row);
      const float share_of = all.total == 0 ? 0.0f : 1.0f / all.total;
      *reinterpret_cast<uint2*>(call.out + (line * call.size + col) * 2) = {
          round_pair<T>(all.sums.x * share_of, all.sums.y * share_of),
          round_pair<T>(all.sums.z * share_of, all.sums.w * share_of)};
      continue;
    }
    const int64_t to = slot * grid.rows + row;
    *reinterpret_cast<float4*>(parts.sums + to * width + col) = all.sums;
    if (col == 0) parts.largest[to] = all.largest, parts.totals[to] = all.total;
  }
  if (threadIdx.x != 0 || !begins || (whole && parts.per_block)) return;
  const int task = parts.per_block ? block : at.sequence * call.groups * grid.row_tiles + at.head;
  parts.tasks[task] = {at.of.first_query,
                       at.of.queries,
                       first_head,
                       first_row,
                       rows,
                       block,
                       whole ? 1 : share.block_of(end - 1) - block + 1};
}

/// Tokens of no sequence.
template <class T>
__device__ inline void clear_other_tokens(const PagedCall& call, int blocks) {
  const int begin = call.starts[0], end = call.starts[call.sequences];
  if (begin <= 0 && end >= call.tokens) return;
  const int64_t line = int64_t{call.heads} * call.size;
  for (int64_t token = blockIdx.x; token < call.tokens; token += blocks) {
    if (token >= begin && token < end) continue;
    for (int64_t i = threadIdx.x; i < line; i += kPagedThreads)
      reinterpret_cast<T*>(call.out)[token * line + i] = store_value<T>(0.0f);
  }
}

__device__ inline void wait_for_stage(int stages) {
  if (stages == 1)
    wait_for_copies<0>();
  else if (stages == 2)
    wait_for_copies<1>();
  else
    wait_for_copies<2>();
}

/// Attends to a warp's 16 keys from position `first` on, which it requested to `place` of its own
/// memory, and requests others into their place.
template <class T, int width, DecodeCache cache>
__device__ inline void attend_tile(const PagedCall& call, const DecodeGrid& grid,
                                   const DecodeQueries<T, width>& queries,
                                   DecodeRequests<T, width, cache>& request, int length, char* own,
                                   int place, int first, PagedState<width>& state) {
  const auto tiles = static_cast<unsigned>(__cvta_generic_to_shared(own));
  const unsigned tile = tiles + static_cast<unsigned>(place);
  wait_for_stage(grid.stages);
  __syncwarp();
  if constexpr (cache == DecodeCache::bytes) {
    const int wide = grid.stages * kDecodeTile<width, cache>, there = length - first;
    if (call.cache_dtype == DType::q8_0)
      convert_runs<T, width, Q8Chunk>(call, own + place, there, own + wide);
    else
      convert_runs<T, width, Float8Chunk>(call, own + place, there, own + wide);
    __syncwarp();
    request(call, grid, tile);
    attend_warp<T, width>(call, queries, tiles + static_cast<unsigned>(wide), first, state);
  } else {
    attend_warp<T, width>(call, queries, tile, first, state);
    __syncwarp();  // the tile is no longer read
    request(call, grid, tile);
  }
}

template <class T, int width, DecodeCache cache>
__global__ void __launch_bounds__(kPagedThreads, width <= 128 ? 2 : 1)
    paged_decode(const __grid_constant__ PagedCall call, const __grid_constant__ DecodeGrid grid,
                 const PagedParts parts) {
  extern __shared__ __align__(128) char shared[];
  begin_next();
  if (!grid.early) wait_for_previous();
  const DecodeShare share = find_share(call, grid);
  constexpr int kTile = kDecodeTile<width, cache>;
  constexpr bool kReadsAhead = width <= 128;  // as far as registers go
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_bytes = decode_warp_bytes<width, cache>(grid.stages);
  auto& memory = *reinterpret_cast<DecodeMemory<width>*>(shared + kDecodeWarps * warp_bytes);
  char* const own = shared + warp * warp_bytes;
  const auto tiles = static_cast<unsigned>(__cvta_generic_to_shared(own));
  const int count = share.end - share.begin;
  DecodeRequests<T, width, cache> request(call, share);
  int requested = 0;
  if (grid.early) {
    for (; requested < grid.stages && request.left > 0 && !request.is_fresh(); ++requested)
      request(call, grid, tiles + static_cast<unsigned>(requested * kTile));
    wait_for_previous();
  }
  if (threadIdx.x == 0 && parts.per_block) parts.tasks[blockIdx.x].count = 1;
  clear_other_tokens<T>(call, grid.blocks);
  if (count == 0) return;
  for (; requested < grid.stages; ++requested)
    request(call, grid, tiles + static_cast<unsigned>(requested * kTile));
  DecodeCursor at(call, share.sequence, share.head, share.tile);
  DecodeQueries<T, width> queries;
  PagedState<width> state;
  queries.read(call, grid, at);
  DecodeCursor next = at;
  int stage = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const int first = at.first_key() + warp * kWarpKeys;
    const bool ends = at.ends_pair(), is_last = i + 1 == count;
    if (!is_last) next.advance(call, grid);
    DecodeQueries<T, width> next_queries;
    if (kReadsAhead && ends && !is_last) next_queries.read(call, grid, next);
    attend_tile(call, grid, queries, request, at.of.length, own, stage * kTile, first, state);
    stage = stage + 1 == grid.stages ? 0 : stage + 1;
    if (!ends && !is_last) {
      at = next;
      continue;
    }
    __syncthreads();  // what other warps have shown before is no longer read
    show_warp<width>(grid.rows, memory, state);
    __syncthreads();
    leave_decode_part<T, width>(call, grid, parts, share, at, share.begin + i, memory);
    if (is_last) return;
    at = next;
    state = {};
    if (kReadsAhead)
      queries = next_queries;
    else
      queries.read(call, grid, at);
  }
}

constexpr int kJoinThreads = 512;

/// Numbers that a lane reads at once, of `each` that it has of a row.
template <int each>
struct alignas(each < 4 ? each * 4 : 16) JoinNumbers {
  static constexpr int kCount = each < 4 ? each : 4;
  float of[kCount];
};

/// Block (t, r) adds row r of what the blocks of task t have left.
template <class T, int width>
__global__ void __launch_bounds__(kJoinThreads)
    join_paged_parts(const __grid_constant__ PagedCall call,
                     const __grid_constant__ DecodeGrid grid, const PagedParts parts) {
  constexpr int kWarps = kJoinThreads / 32, kEach = width / 32;
  __shared__ float sums[kWarps][width], totals[kWarps];
  begin_next();
  wait_for_previous();
  const int number = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  if (!parts.per_block) {
    const int sequence = number / (call.groups * grid.row_tiles);
    if (call.starts[sequence + 1] <= call.starts[sequence]) return;  // nobody wrote its task
  }
  const JoinTask task = parts.tasks[number];
  if (task.count <= 1 || row >= task.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto at = [&](int i) { return slot_of(task.block, i) * grid.rows + row; };
  float most = kHidden;
  for (int i = lane; i < task.count; i += 32) most = fmaxf(most, parts.largest[at(i)]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, distance));
  float own[kEach] = {}, total = 0;
#pragma unroll 8
  for (int i = warp; i < task.count; i += kWarps) {
    const float largest = parts.largest[at(i)], its_total = parts.totals[at(i)];
    const auto* const from =
        reinterpret_cast<const JoinNumbers<kEach>*>(parts.sums + at(i) * width);
    JoinNumbers<kEach> numbers[kEach / JoinNumbers<kEach>::kCount];
#pragma unroll
    for (int j = 0; j < kEach / numbers[0].kCount; ++j) numbers[j] = from[j * 32 + lane];
    const float factor = largest == kHidden ? 0.0f : power_of_two(largest - most);
    total = fmaf(its_total, factor, total);
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      own[j] = fmaf(numbers[j / numbers[0].kCount].of[j % numbers[0].kCount], factor, own[j]);
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    sums[warp][(j / JoinNumbers<kEach>::kCount * 32 + lane) * JoinNumbers<kEach>::kCount +
               j % JoinNumbers<kEach>::kCount] = own[j];
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  const int col = static_cast<int>(threadIdx.x);
  if (col >= call.size) return;
  float sum = 0;
  total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    sum += sums[w][col];
    total += totals[w];
  }
  const int64_t line = line_of_row(call.heads, task.first_query, task.queries, task.first_head,
                                   task.first_row + row);
  reinterpret_cast<T*>(call.out)[line * call.size + col] =
      store_value<T>(total == 0 ? 0.0f : sum / total);
}

template <class T, int width>
void launch_paged_decode(std::string_view op, int device, const PagedCall& call) {
  const int rows = call.max_query * (call.heads / call.groups);
  DecodeGrid grid{};
  grid.row_tiles = (rows + kDecodeRows - 1) / kDecodeRows;
  grid.rows = std::min(rows, kDecodeRows);
  grid.least_tiles = grid.rows > 8 ? 2 : 1;
  grid.stages = width == 64 ? 3 : 2;
  grid.early = call.only_last_is_new;
  const int per_processor = width == 64 ? 3 : width == 128 ? 2 : 1;
  const int64_t tiles = int64_t{call.sequences} * call.groups * grid.row_tiles *
                        ((call.max_length + kPagedKeys - 1) / kPagedKeys + 1);
  grid.blocks = static_cast<int>(
      std::min<int64_t>(int64_t{device_info(device).multiprocessors} * per_processor, tiles));
  const auto slots = static_cast<size_t>(2 * grid.blocks * grid.rows);
  const size_t floats = slots * (width + 2);
  const int64_t pairs = int64_t{call.sequences} * call.groups * grid.row_tiles;
  const bool per_block = pairs > grid.blocks;
  const int tasks = per_block ? grid.blocks : static_cast<int>(pairs);
  const Scratch memory(device, floats * 4 + static_cast<size_t>(tasks) * sizeof(JoinTask));
  auto* const sums = reinterpret_cast<float*>(memory.data());
  const PagedParts parts{sums, sums + slots * width, sums + slots * (width + 1),
                         reinterpret_cast<JoinTask*>(sums + floats), per_block};
  const auto launch = [&]<DecodeCache cache>() {
    const auto kernel = paged_decode<T, width, cache>;
    const int most = most_shared_memory(device) - 1024;  // beside what a block has anyway
    const auto bytes = [&] { return decode_shared<width, cache>(grid.stages, grid.rows); };
    while (grid.stages > 1 && bytes() > most) --grid.stages;
    if (bytes() > most) return false;
    allow_shared_memory(device, reinterpret_cast<const void*>(kernel), most);
    prefer_shared_memory(device, reinterpret_cast<const void*>(kernel),
                         width <= 128 && cache == DecodeCache::plain ? kStepSharedPercent : 100);
    Launch{op, device, static_cast<unsigned>(bytes()), true}(
        kernel, dim3(static_cast<unsigned>(grid.blocks)), dim3(kPagedThreads), call, grid, parts);
    return true;
  };
  const bool runs = call.block_size % kWarpKeys == 0;
  const bool bytes = call.cache_dtype == DType::q8_0 || call.cache_dtype == DType::float8_e4m3fn;
  const bool fits = runs && is_16_bits_of<T>(call.cache_dtype)
                        ? launch.template operator()<DecodeCache::plain>()
                    : runs && bytes ? launch.template operator()<DecodeCache::bytes>()
                                    : launch.template operator()<DecodeCache::any>();
  if (!fits) return general_paged_attention(op, device, call);
  Launch{op, device, 0, true}(join_paged_parts<T, width>,
                              dim3(static_cast<unsigned>(tasks), static_cast<unsigned>(grid.rows)),
                              dim3(kJoinThreads), call, grid, parts);
}

}  // namespace tensora::cuda
