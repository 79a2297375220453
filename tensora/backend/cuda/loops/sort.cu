#include "tensora/backend/cuda/loops/sort.h"

#include <utility>

#include "tensora/backend/cuda/loops/scan.cuh"

namespace tensora::cuda {
namespace {

// Note [Radix sort]
// A pass distributes the pairs into 256 bins by eight bits of the key, and keeps the order within a
// bin: after passes over all bits, the lowest first, the keys are sorted. A pass has three steps:
//   1. every block counts how many of its keys go into each bin;
//   2. a scan over (bin, block), bin by bin, gives where each block's share of each bin begins;
//   3. every block moves its pairs there.
// In step 3 a pair must find how many pairs before it, in its block, go into the same bin. A warp
// takes its keys in rows of 32: __match_any_sync tells each lane which lanes hold the same digit,
// and a counter per warp and bin remembers the rows before.

constexpr int kDigitBits = 8;
constexpr unsigned kBins = 1u << kDigitBits;
constexpr unsigned kSortThreads = 256, kWarps = kSortThreads / 32, kRows = 16;
constexpr unsigned kSortTile = kSortThreads * kRows;
static_assert(kBins == kSortThreads, "a thread per bin");

struct PassParams {
  const uint64_t* keys;
  const uint32_t* values;
  uint64_t* to_keys;
  uint32_t* to_values;
  unsigned* starts;  // bins x blocks: counts, then where they begin
  unsigned count;
  int shift;
  unsigned digit_mask;  // fewer bits in the last pass
};

__device__ inline unsigned digit_of(uint64_t key, const PassParams& params) {
  return static_cast<unsigned>(key >> params.shift) & params.digit_mask;
}

__global__ void __launch_bounds__(kSortThreads)
    count_digits(const __grid_constant__ PassParams params) {
  __shared__ unsigned counts[kBins];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const unsigned begin = blockIdx.x * kSortTile;
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = begin + r * kSortThreads + threadIdx.x;
    if (i < params.count) atomicAdd(&counts[digit_of(params.keys[i], params)], 1u);
  }
  __syncthreads();
  params.starts[threadIdx.x * gridDim.x + blockIdx.x] = counts[threadIdx.x];
}

// An exclusive scan in place.
struct Starts {
  using Acc = unsigned;
  struct Line {};
  unsigned* data;

  __device__ Line line(unsigned) const { return {}; }
  __device__ Acc init() const { return 0; }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ void load(Line, long long first, int count, Acc (&values)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) values[k] = k < count ? data[first + k] : 0;
  }
  __device__ void store(Line, long long first, int count, Acc before,
                        const Acc (&through)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k)
      if (k < count) data[first + k] = k == 0 ? before : through[k - 1];
  }
};

__global__ void __launch_bounds__(kSortThreads)
    move_pairs(const __grid_constant__ PassParams params) {
  __shared__ unsigned before[kWarps][kBins];  // of a warp's keys: counts, then where they begin
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (unsigned w = 0; w < kWarps; ++w) before[w][threadIdx.x] = 0;
  __syncthreads();
  const unsigned begin = blockIdx.x * kSortTile + warp * (32 * kRows) + lane;
  uint64_t keys[kRows];
  unsigned ranks[kRows];
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = begin + r * 32;
    const bool present = i < params.count;
    keys[r] = present ? params.keys[i] : 0;
    const unsigned digit = present ? digit_of(keys[r], params) : kBins;
    const unsigned same = __match_any_sync(0xffffffffu, digit);
    const unsigned below = __popc(same & ((1u << lane) - 1));
    ranks[r] = present ? before[warp][digit] + below : 0;
    __syncwarp();
    if (present && below == 0) before[warp][digit] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  unsigned start = params.starts[threadIdx.x * gridDim.x + blockIdx.x];
  for (unsigned w = 0; w < kWarps; ++w) {
    const unsigned count = before[w][threadIdx.x];
    before[w][threadIdx.x] = start;
    start += count;
  }
  __syncthreads();
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = begin + r * 32;
    if (i >= params.count) continue;
    const unsigned to = before[warp][digit_of(keys[r], params)] + ranks[r];
    params.to_keys[to] = keys[r];
    params.to_values[to] = params.values[i];
  }
}

}  // namespace

SortPairs sort_pairs(std::string_view op, int device, SortPairs pairs, SortPairs spare, int64_t n,
                     int first_bit, int end_bit) {
  if (n <= 1) return pairs;
  check(n < int64_t{1} << 31, op, ": sorting more than 2^31 elements is not supported on cuda");
  const auto blocks = static_cast<unsigned>((n + kSortTile - 1) / kSortTile);
  const Scratch starts(device, size_t{blocks} * kBins * sizeof(unsigned));
  const Launch launch{op, device};
  for (int bit = first_bit; bit < end_bit; bit += kDigitBits) {
    PassParams params{};
    params.keys = pairs.keys;
    params.values = pairs.values;
    params.to_keys = spare.keys;
    params.to_values = spare.values;
    params.starts = reinterpret_cast<unsigned*>(starts.data());
    params.count = static_cast<unsigned>(n);
    params.shift = bit;
    params.digit_mask = (1u << std::min(kDigitBits, end_bit - bit)) - 1;
    launch(count_digits, dim3(blocks), dim3(kSortThreads), params);
    run_scan(op, device, Starts{params.starts}, 1, int64_t{blocks} * kBins, ScanLayout::rows);
    launch(move_pairs, dim3(blocks), dim3(kSortThreads), params);
    std::swap(pairs, spare);
  }
  return pairs;
}

}  // namespace tensora::cuda
