#pragma once

// Internal header

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/paged/paged_tiles.cuh"

// Note [Paged attention of few queries]
// As in Note [Attention of few queries], the queries of all heads that share keys are the rows of
// one tile of 16, and four warps take 16 keys of each tile of 64 each. The keys of a sequence are
// cut into at most kMostParts parts, by its length alone: a length is known on the device only, so
// a launch has blocks for all parts that the longest sequence could need, and most may find nothing
// to do. Results do not depend on other sequences, and a launch can be recorded in a graph.

namespace tensora::cuda {

inline constexpr int kMostParts = 32, kDecodeRows = kFewPagedRows;

struct PagedParts {
  float *sums, *largest, *totals;  // per part and line; a line is a query's head
  int count;                       // that fit
};

/// The keys of one part of a sequence.
struct PartRange {
  int begin, end, parts;
  __device__ PartRange(int first, int length, int part) {
    const int all = max(length - first, 0);
    const int each = max((all + kMostParts - 1) / kMostParts + kPagedKeys - 1, kPagedKeys) /
                     kPagedKeys * kPagedKeys;
    parts = (all + each - 1) / each;
    begin = first + part * each;
    end = min(begin + each, length);
  }
};

template <int width>
inline constexpr int kDecodeStages = width <= 128 ? 2 : 1;
template <int width>
inline constexpr int kDecodeShared =
    kDecodeRows * width * 2 + kDecodeStages<width> * 2 * kPagedKeys * width * 2;

// The four warps' results, brought together.
template <int width>
__device__ inline void join_paged_warps(const PagedCall& call, const PagedPlace& place,
                                        const PagedParts& parts, int part, int rows, char* shared,
                                        PagedState<width>& state) {
  constexpr int kPitch = width + 4;
  static_assert(kDecodeShared<width> >= 4 * kDecodeRows * kPitch * 4);
  float* const all = reinterpret_cast<float*>(shared);  // warp, row, column
  __shared__ float largest[4][kDecodeRows], totals[4][kDecodeRows];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    float total = state.total[half];
    total += __shfl_xor_sync(kWholeWarp, total, 1);
    total += __shfl_xor_sync(kWholeWarp, total, 2);
    if (lane % 4 == 0) {
      largest[warp][row] = state.largest[half];
      totals[warp][row] = total;
    }
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        all[(warp * kDecodeRows + row) * kPitch + n * 8 + lane % 4 * 2 + i] =
            state.sums[n][2 * half + i];
  }
  __syncthreads();
  const int per_group = call.heads / call.groups;
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kPagedThreads) {
    const int row = i / width, col = i % width;
    float most = kHidden, total = 0, sum = 0;
    for (int w = 0; w < 4; ++w) most = fmaxf(most, largest[w][row]);
    const float base = most == kHidden ? 0.0f : most;
    for (int w = 0; w < 4; ++w) {
      const float factor = power_of_two(largest[w][row] - base);
      total += totals[w][row] * factor;
      sum += all[(w * kDecodeRows + row) * kPitch + col] * factor;
    }
    const int64_t line = int64_t{place.first_query + row % place.queries} * call.heads +
                         place.group * per_group + row / place.queries;
    const int64_t at = line * kMostParts + part;
    parts.sums[at * width + col] = sum;
    if (col == 0) {
      parts.largest[at] = most;
      parts.totals[at] = total;
    }
  }
}

template <class T, int width>
__global__ void __launch_bounds__(kPagedThreads, 2)
    paged_decode(const __grid_constant__ PagedCall call, const PagedParts parts) {
  constexpr int kStages = kDecodeStages<width>;
  extern __shared__ __align__(128) char shared[];
  begin_next();
  wait_for_previous();
  const PagedPlace place(call, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y));
  const int part = static_cast<int>(blockIdx.x), per_group = call.heads / call.groups;
  if (place.queries <= 0 || place.queries * per_group > kDecodeRows) return;
  const int rows = place.queries * per_group;
  const PartRange range(place.first_seen(call, 0), place.length, part);
  if (part >= range.parts) return;
  const auto queries = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto tile = [&](int step) {
    return queries + kDecodeRows * width * 2 +
           static_cast<unsigned>(step % kStages) * 2 * kPagedKeys * width * 2;
  };
  const int steps = (range.end - range.begin + kPagedKeys - 1) / kPagedKeys;
  const auto request = [&](int step) {
    if (step < steps)
      request_keys<T, width>(call, place, range.begin + step * kPagedKeys, range.end, tile(step));
    close_copies();
  };
  request_queries<T, width, kDecodeRows>(call, queries, [&](int row) {
    return row < rows ? int64_t{place.first_query + row % place.queries} * call.heads +
                            place.group * per_group + row / place.queries
                      : int64_t{-1};
  });
#pragma unroll
  for (int step = 0; step < kStages; ++step) request(step);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int position[2], lowest[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    position[half] = row < rows ? min(place.position(row % place.queries), range.end - 1) : -1;
    lowest[half] = row < rows ? place.first_seen(call, row % place.queries) : 0;
  }
  PagedState<width> state;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<kStages - 1>();
    __syncthreads();
    attend<T, width, 1>(call, queries, tile(step), warp * 16,
                        range.begin + step * kPagedKeys + warp * 16, position, lowest, state);
    __syncthreads();  // the tile is no longer read
    request(step + kStages);
  }
  wait_for_copies<0>();
  __syncthreads();
  join_paged_warps<width>(call, place, parts, part, rows, shared, state);
}

// A warp per line brings its parts together.
template <class T>
__global__ void __launch_bounds__(kPagedThreads)
    join_paged_parts(const __grid_constant__ PagedCall call, const PagedParts parts, int width) {
  begin_next();
  wait_for_previous();
  const int64_t row = int64_t{blockIdx.x} * (kPagedThreads / 32) + threadIdx.x / 32;
  if (row >= call.tokens * call.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Read before it is known how many parts there are, so as to wait for memory once.
  const int64_t first = row * kMostParts;
  const float read = lane < parts.count ? parts.largest[first + lane] : 0.0f;
  const float read_total = lane < parts.count ? parts.totals[first + lane] : 0.0f;
  const int sequence = sequence_of(call, static_cast<int>(row / call.heads));
  int count = 0;
  if (sequence >= 0) {
    const PagedPlace place(call, sequence, 0);
    count = min(PartRange(place.first_seen(call, 0), place.length, 0).parts, parts.count);
  }
  const float own = lane < count ? read : kHidden;
  float most = own;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, distance));
  const float factor = own == kHidden ? 0.0f : power_of_two(own - most);
  float total = lane < count ? read_total * factor : 0.0f;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    total += __shfl_xor_sync(kWholeWarp, total, distance);
  const float share = total == 0 ? 0.0f : 1.0f / total;
  for (int col = lane; col < call.size + lane; col += 32) {  // whole warps, for the shuffles
    float sum = 0;
#pragma unroll 8
    for (int part = 0; part < count; ++part) {
      const float weight = __shfl_sync(kWholeWarp, factor, part);
      if (col < call.size) sum = fmaf(parts.sums[(first + part) * width + col], weight, sum);
    }
    if (col < call.size)
      reinterpret_cast<T*>(call.out)[row * call.size + col] = store_value<T>(sum * share);
  }
}

template <class T, int width>
void launch_paged_decode(std::string_view op, int device, const PagedCall& call) {
  const int bound = call.max_length;
  const int count = std::clamp((bound + kPagedKeys - 1) / kPagedKeys, 1, kMostParts);
  const int64_t lines = call.tokens * call.heads;
  const Scratch memory(device, static_cast<size_t>(lines * kMostParts * (width + 2) * 4));
  auto* const sums = reinterpret_cast<float*>(memory.data());
  const PagedParts parts{sums, sums + lines * kMostParts * width,
                         sums + lines * kMostParts * (width + 1), count};
  const auto kernel = paged_decode<T, width>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kDecodeShared<width>);
  Launch{op, device, kDecodeShared<width>, true}(
      kernel,
      dim3(static_cast<unsigned>(count), static_cast<unsigned>(call.groups),
           static_cast<unsigned>(call.sequences)),
      dim3(kPagedThreads), call, parts);
  const int each = kPagedThreads / 32;
  Launch{op, device, 0, true}(join_paged_parts<T>,
                              dim3(static_cast<unsigned>((lines + each - 1) / each)),
                              dim3(kPagedThreads), call, parts, width);
}

}  // namespace tensora::cuda
