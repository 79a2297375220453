#pragma once

// Internal header

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/paged/paged_tiles.cuh"

// Note [Paged attention of many queries]
// A block has 64 queries of one head, a warp 16 of them; tiles of 64 keys and values pass through
// shared memory, the next one in flight. Only tiles that some query of the block sees are read.

namespace tensora::cuda {

inline constexpr int kPrefillRows = 64;

template <int width>
inline constexpr int kPrefillStages = width <= 128 ? 2 : 1;
template <int width>
inline constexpr int kPrefillShared =
    kPrefillRows * width * 2 + kPrefillStages<width> * 2 * kPagedKeys * width * 2;

template <class T, int width>
__global__ void __launch_bounds__(kPagedThreads)
    paged_prefill(const __grid_constant__ PagedCall call) {
  constexpr int kStages = kPrefillStages<width>;
  extern __shared__ __align__(128) char shared[];
  const int head = static_cast<int>(blockIdx.y);
  const PagedPlace place(call, static_cast<int>(blockIdx.z), head / (call.heads / call.groups));
  // The last queries see most: they come first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kPrefillRows;
  if (first >= place.queries) return;
  const int last = min(first + kPrefillRows, place.queries) - 1;
  const int begin = place.first_seen(call, first) / kPagedKeys * kPagedKeys;
  const int end = place.position(last) + 1,
            steps = max((end - begin + kPagedKeys - 1) / kPagedKeys, 0);
  const auto queries = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto tile = [&](int step) {
    return queries + kPrefillRows * width * 2 +
           static_cast<unsigned>(step % kStages) * 2 * kPagedKeys * width * 2;
  };
  const auto request = [&](int step) {
    if (step < steps)
      request_keys<T, width>(call, place, begin + step * kPagedKeys, end, tile(step));
    close_copies();
  };
  request_queries<T, width, kPrefillRows>(call, queries, [&](int row) {
    return first + row < place.queries
               ? int64_t{place.first_query + first + row} * call.heads + head
               : int64_t{-1};
  });
#pragma unroll
  for (int step = 0; step < kStages; ++step) request(step);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int position[2], lowest[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first + warp * 16 + lane / 4 + half * 8;
    position[half] = query < place.queries ? place.position(query) : -1;
    lowest[half] = query < place.queries ? place.first_seen(call, query) : 0;
  }
  PagedState<width> state;
  const unsigned own = queries + static_cast<unsigned>(warp) * 16 * width * 2;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<kStages - 1>();
    __syncthreads();
    attend<T, width, 4>(call, own, tile(step), 0, begin + step * kPagedKeys, position, lowest,
                        state);
    __syncthreads();  // the tile is no longer read
    request(step + kStages);
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = state.total[half];
    total += __shfl_xor_sync(kWholeWarp, total, 1);
    total += __shfl_xor_sync(kWholeWarp, total, 2);
    const float share = total == 0 ? 0.0f : 1.0f / total;
    const int query = first + warp * 16 + lane / 4 + half * 8;
    if (query >= place.queries) continue;
    const int64_t row = int64_t{place.first_query + query} * call.heads + head;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (col < call.size)
        *reinterpret_cast<unsigned*>(call.out + (row * call.size + col) * 2) =
            round_pair<T>(state.sums[n][2 * half] * share, state.sums[n][2 * half + 1] * share);
    }
  }
}

template <class T, int width>
void launch_paged_prefill(std::string_view op, int device, const PagedCall& call) {
  const auto kernel = paged_prefill<T, width>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kPrefillShared<width>);
  const int tiles = (call.max_query + kPrefillRows - 1) / kPrefillRows;
  Launch{op, device, kPrefillShared<width>}(
      kernel,
      dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(call.heads),
           static_cast<unsigned>(call.sequences)),
      dim3(kPagedThreads), call);
}

}  // namespace tensora::cuda
