#pragma once

// Compaction: packs the selected elements of a line, in their order.
//
// A choice is a functor:
//   unsigned flags(long long first, int present) const;     bit k: element first + k is chosen, for
//                                                           k < present <= kCompactItems
//   void store(long long place, long long position) const;  the chosen element at `position` is
//                                                           number `place` of the result
//
// Note [Looking back]
// A block must know how many elements were chosen before its tile. It publishes its own count, then
// looks at what the tiles before it have published, nearest first and 32 at a time, and adds up
// counts until it meets a tile that knows its whole prefix; then it publishes its own. So elements
// are read once, and a block waits only for the counts of the tiles before it. Tiles are numbered
// in the order in which blocks start, hence a block waits only for blocks that run. Sums of
// integers are the same however far a block had to look, so the result does not depend on timing;
// scans of floats cannot be made so (Note [Scans in three phases]).

#include <algorithm>

#include "tensora/backend/cuda/loops/scan.cuh"

namespace tensora::cuda {

inline constexpr int kCompactItems = 16;  // adjacent elements of a thread
inline constexpr unsigned kCompactThreads = 256;
inline constexpr int kCompactTile = kCompactItems * static_cast<int>(kCompactThreads);

/// What a tile has published: a state in the two highest bits, a count below.
namespace published {
inline constexpr unsigned long long kCount = 1ull << 62, kPrefix = 2ull << 62;
inline constexpr unsigned long long kValue = (1ull << 62) - 1;
}  // namespace published

struct CompactParams {
  long long count;  // elements
  unsigned tiles;
  unsigned* ticket;                        // how many tiles were handed out
  volatile unsigned long long* published;  // per tile; zero: nothing yet
};

/// How many of a thread's elements exist.
__device__ inline int present_items(long long first, long long count) {
  return static_cast<int>(max(0ll, min(count - first, static_cast<long long>(kCompactItems))));
}

/// What the tiles before `tile` chose. Called by a whole warp; every lane gets the result.
__device__ inline unsigned long long look_back(const CompactParams& params, unsigned tile) {
  const unsigned lane = threadIdx.x % 32;
  unsigned long long before = 0;
  for (long long nearest = static_cast<long long>(tile) - 1;; nearest -= 32) {
    const long long other = nearest - lane;
    unsigned long long word = published::kPrefix;  // nothing comes before tile 0
    if (other >= 0) do {
        word = params.published[other];
      } while (word == 0);
    const unsigned known = __ballot_sync(0xffffffffu, (word & published::kPrefix) != 0);
    const unsigned last =
        known == 0 ? 31 : static_cast<unsigned>(__ffs(static_cast<int>(known))) - 1;
    unsigned long long sum = lane <= last ? word & published::kValue : 0;
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    before += sum;
    if (known != 0) return before;
  }
}

template <class F>
__global__ void __launch_bounds__(kCompactThreads)
    compact_tiles(const __grid_constant__ CompactParams params, const F functor) {
  __shared__ unsigned short chosen[kCompactTile];  // offsets within the tile
  __shared__ unsigned warps[kCompactThreads / 32];
  __shared__ unsigned long long start;
  __shared__ unsigned tile;
  if (threadIdx.x == 0) tile = atomicAdd(params.ticket, 1u);
  __syncthreads();
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long begin = static_cast<long long>(tile) * kCompactTile;
  const int offset = static_cast<int>(threadIdx.x) * kCompactItems;
  unsigned flags = functor.flags(begin + offset, present_items(begin + offset, params.count));
  const unsigned mine = __popc(flags);
  unsigned through = mine;
#pragma unroll
  for (unsigned delta = 1; delta < 32; delta *= 2) {
    const unsigned below = __shfl_up_sync(0xffffffffu, through, delta);
    if (lane >= delta) through += below;
  }
  if (lane == 31) warps[warp] = through;
  __syncthreads();
  unsigned at = through - mine, total = 0;
#pragma unroll
  for (unsigned w = 0; w < kCompactThreads / 32; ++w) {
    if (w < warp) at += warps[w];
    total += warps[w];
  }
  if (warp == 0) {
    if (lane == 0) params.published[tile] = published::kCount | total;
    const unsigned long long before = look_back(params, tile);
    if (lane == 0) {
      params.published[tile] = published::kPrefix | (before + total);
      start = before;
    }
  }
  for (; flags != 0; flags &= flags - 1)
    chosen[at++] = static_cast<unsigned short>(offset + __ffs(static_cast<int>(flags)) - 1);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < total; i += kCompactThreads)
    functor.store(static_cast<long long>(start + i), begin + chosen[i]);
}

/// Adds the number of chosen elements to *total.
template <class F>
__global__ void __launch_bounds__(kCompactThreads)
    count_chosen(const F functor, long long count, unsigned long long* total) {
  unsigned long long mine = 0;
  const long long stride = static_cast<long long>(gridDim.x) * kCompactTile;
  for (long long first =
           (static_cast<long long>(blockIdx.x) * kCompactThreads + threadIdx.x) * kCompactItems;
       first < count; first += stride)
    mine += __popc(functor.flags(first, present_items(first, count)));
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2)
    mine += __shfl_xor_sync(0xffffffffu, mine, distance);
  if (threadIdx.x % 32 == 0 && mine != 0) atomicAdd(total, mine);
}

/// Queues the compaction of `count` elements on the current stream.
template <class F>
void run_compact(std::string_view op, int device, const F& functor, int64_t count) {
  if (count == 0) return;
  const int64_t tiles = (count + kCompactTile - 1) / kCompactTile;
  check(tiles < int64_t{1} << 31, op, ": more than 2^43 elements are not supported on cuda");
  const size_t bytes = (static_cast<size_t>(tiles) + 1) * sizeof(unsigned long long);
  const Scratch scratch(device, bytes);
  use_device(device);
  check_cuda(cudaMemsetAsync(scratch.data(), 0, bytes, current_stream(device)), op);
  CompactParams params{};
  params.count = count;
  params.tiles = static_cast<unsigned>(tiles);
  params.ticket = reinterpret_cast<unsigned*>(scratch.data());
  params.published = reinterpret_cast<unsigned long long*>(scratch.data()) + 1;
  Launch{op, device}(compact_tiles<F>, dim3(params.tiles), dim3(kCompactThreads), params, functor);
}

/// Queues the counting of the chosen among `count` elements into *total.
template <class F>
void run_count(std::string_view op, int device, const F& functor, int64_t count, int64_t* total) {
  use_device(device);
  check_cuda(cudaMemsetAsync(total, 0, sizeof *total, current_stream(device)), op);
  constexpr int64_t kBlocksPerMultiprocessor = 8;
  const int64_t tiles = (count + kCompactTile - 1) / kCompactTile;
  const int64_t blocks =
      std::min(tiles, device_info(device).multiprocessors * kBlocksPerMultiprocessor);
  Launch{op, device}(count_chosen<F>, dim3(static_cast<unsigned>(blocks)), dim3(kCompactThreads),
                     functor, count, reinterpret_cast<unsigned long long*>(total));
}

}  // namespace tensora::cuda
