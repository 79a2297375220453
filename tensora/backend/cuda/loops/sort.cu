#include "tensora/backend/cuda/loops/sort.h"

#include <utility>

#include "tensora/backend/cuda/loops/scan.cuh"

namespace tensora::cuda {
namespace {

// Note [Radix sort]
// A pass distributes the pairs of a line into 256 bins by eight bits of the key, and keeps the
// order within a bin: after passes over all bits, the lowest first, the keys are sorted. Lines are
// cut into tiles, one block each. A pass has three steps:
//   1. every block counts how many of its keys go into each bin;
//   2. a scan over (bin, tile) of each line, bin by bin, gives where each tile's share begins;
//   3. every block sorts its tile by the digit, in shared memory, and writes the bins from there:
//      what goes into one bin is adjacent, so that most of a write's bytes are used.
// In step 3 a pair must find how many pairs before it, in its tile, go into the same bin. A warp
// takes its keys in rows of 32: one vote per bit of the digit tells each lane which lanes hold the
// same digit, and a counter per warp and bin remembers the rows before.

constexpr int kDigitBits = 8;
constexpr unsigned kBins = 1u << kDigitBits;
constexpr unsigned kSortThreads = 256, kWarps = kSortThreads / 32, kRows = 16;
constexpr unsigned kSortTile = kSortThreads * kRows;
static_assert(kBins == kSortThreads, "a thread per bin");

template <class Key>
struct PassParams {
  const Key* keys /* lines count */;
  const uint32_t* values;  // or null: positions
  Key* to_keys;
  uint32_t* to_values;
  unsigned* starts;  // lines x bins x tiles: counts, then where they begin
  unsigned count, tiles;
  int shift;
  unsigned digit_mask;  // fewer bits in the last pass

  __device__ unsigned digit(Key key) const {
    return static_cast<unsigned>(key >> shift) & digit_mask;
  }
};

/// The block's line and tile.
struct Place {
  long long line_start;  // in pairs
  unsigned tile;
  unsigned* starts;  // of the line

  template <class Key>
  __device__ explicit Place(const PassParams<Key>& params) {
    const unsigned line = blockIdx.x / params.tiles;
    tile = blockIdx.x - line * params.tiles;
    line_start = static_cast<long long>(line) * params.count;
    starts = params.starts + static_cast<size_t>(line) * kBins * params.tiles;
  }
};

template <class Key>
__global__ void __launch_bounds__(kSortThreads)
    count_digits(const __grid_constant__ PassParams<Key> params) {
  __shared__ unsigned counts[kBins];
  const Place place(params);
  counts[threadIdx.x] = 0;
  __syncthreads();
  const Key* const keys = params.keys + place.line_start;
  const unsigned begin = place.tile * kSortTile + threadIdx.x;
  Key loaded[kRows];
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = begin + r * kSortThreads;
    loaded[r] = i < params.count ? keys[i] : 0;
  }
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r)
    if (begin + r * kSortThreads < params.count) atomicAdd(&counts[params.digit(loaded[r])], 1u);
  __syncthreads();
  place.starts[threadIdx.x * params.tiles + place.tile] = counts[threadIdx.x];
}

// An exclusive scan in place.
struct Starts {
  using Acc = unsigned;
  using Line = unsigned*;
  unsigned* data;
  long long length;

  __device__ Line line(unsigned number) const { return data + number * length; }
  __device__ Acc init() const { return 0; }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ void load(Line line, long long first, int count, Acc (&values)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) values[k] = k < count ? line[first + k] : 0;
  }
  __device__ void store(Line line, long long first, int count, Acc before,
                        const Acc (&through)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k)
      if (k < count) line[first + k] = k == 0 ? before : through[k - 1];
  }
};

/// Which lanes hold the same digit.
__device__ inline unsigned lanes_alike(unsigned digit) {
  unsigned alike = kWholeWarp;
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool set = digit >> bit & 1;
    const unsigned lanes = __ballot_sync(kWholeWarp, set);
    alike &= set ? lanes : ~lanes;
  }
  return alike;
}

/// An exclusive scan over the block's threads.
__device__ inline unsigned sum_below(unsigned mine) {
  __shared__ unsigned warps[kWarps];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned through = mine;
#pragma unroll
  for (unsigned delta = 1; delta < 32; delta *= 2) {
    const unsigned below = __shfl_up_sync(kWholeWarp, through, delta);
    if (lane >= delta) through += below;
  }
  if (lane == 31) warps[warp] = through;
  __syncthreads();
  unsigned before = through - mine;
  for (unsigned w = 0; w < warp; ++w) before += warps[w];
  return before;
}

/// What the threads of a block tell each other while they sort their tile by a digit.
template <class Key>
struct TileMemory {
  unsigned before[kWarps][kBins];  // of a warp's keys: counts, then where they begin
  unsigned shifts[kBins];          // from a place in the tile to one in the line
  Key staged[kSortTile];
};

/// Where each of the thread's keys goes within the tile. `present` of them exist.
template <class Key>
__device__ inline void rank_keys(const PassParams<Key>& params, const Place& place,
                                 TileMemory<Key>& memory, const Key (&keys)[kRows], unsigned begin,
                                 unsigned present, unsigned (&places)[kRows]) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (unsigned w = 0; w < kWarps; ++w) memory.before[w][threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const bool here = begin + r * 32 < present;
    const unsigned digit = params.digit(keys[r]);
    const unsigned alike = lanes_alike(digit) & __ballot_sync(kWholeWarp, here);
    const unsigned below = __popc(alike & ((1u << lane) - 1));
    places[r] = memory.before[warp][digit] + below;
    __syncwarp();
    if (here && below == 0) memory.before[warp][digit] += __popc(alike);
    __syncwarp();
  }
  __syncthreads();
  unsigned count = 0;
#pragma unroll
  for (unsigned w = 0; w < kWarps; ++w) count += memory.before[w][threadIdx.x];
  unsigned start = sum_below(count);
  memory.shifts[threadIdx.x] = place.starts[threadIdx.x * params.tiles + place.tile] - start;
#pragma unroll
  for (unsigned w = 0; w < kWarps; ++w) {
    const unsigned of_warp = memory.before[w][threadIdx.x];
    memory.before[w][threadIdx.x] = start;
    start += of_warp;
  }
  __syncthreads();
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) places[r] += memory.before[warp][params.digit(keys[r])];
}

template <class Key>
__global__ void __launch_bounds__(kSortThreads, 3)
    move_pairs(const __grid_constant__ PassParams<Key> params) {
  __shared__ TileMemory<Key> memory;
  const Place place(params);
  const unsigned tile_start = place.tile * kSortTile;
  const unsigned present = min(kSortTile, params.count - tile_start);
  // A warp's keys are adjacent, and a row of them is read at once.
  const unsigned begin = threadIdx.x / 32 * (32 * kRows) + threadIdx.x % 32;
  const long long tile_at = place.line_start + tile_start;
  Key keys[kRows];
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = begin + r * 32;
    keys[r] = i < present ? params.keys[tile_at + i] : 0;
  }
  unsigned places[kRows];
  rank_keys(params, place, memory, keys, begin, present, places);
  uint32_t values[kRows];
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = begin + r * 32;
    if (i < present) memory.staged[places[r]] = keys[r];
    values[r] = i < present && params.values ? params.values[tile_at + i] : tile_start + i;
  }
  __syncthreads();
  unsigned targets[kRows];
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = threadIdx.x + r * kSortThreads;
    if (i >= present) continue;
    const Key key = memory.staged[i];
    targets[r] = i + memory.shifts[params.digit(key)];
    params.to_keys[place.line_start + targets[r]] = key;
  }
  __syncthreads();
  uint32_t* const staged_values = reinterpret_cast<uint32_t*>(memory.staged);
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r)
    if (begin + r * 32 < present) staged_values[places[r]] = values[r];
  __syncthreads();
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const unsigned i = threadIdx.x + r * kSortThreads;
    if (i < present) params.to_values[place.line_start + targets[r]] = staged_values[i];
  }
}

}  // namespace

template <class Key>
Pairs<Key> sort_lines_of_pairs(std::string_view op, int device, Pairs<Key> pairs, Pairs<Key> spare,
                               uint32_t* first_values, int64_t lines, int64_t n, int first_bit,
                               int end_bit) {
  if (lines == 0 || n == 0) return pairs;
  const int64_t tiles = (n + kSortTile - 1) / kSortTile;
  check(n < int64_t{1} << 31, op, ": sorting more than 2^31 elements is not supported on cuda");
  check(lines * tiles < int64_t{1} << 31, op, ": ", lines, " lines of ", n,
        " elements are too many to be sorted on cuda");
  const auto blocks = static_cast<unsigned>(lines * tiles);
  const Scratch starts(device, size_t{blocks} * kBins * sizeof(unsigned));
  const Launch launch{op, device};
  const uint32_t* values = first_values;
  for (int bit = first_bit; bit < end_bit; bit += kDigitBits) {
    PassParams<Key> params{};
    params.keys = pairs.keys;
    params.values = values;
    params.to_keys = spare.keys;
    params.to_values = spare.values;
    params.starts = reinterpret_cast<unsigned*>(starts.data());
    params.count = static_cast<unsigned>(n);
    params.tiles = static_cast<unsigned>(tiles);
    params.shift = bit;
    params.digit_mask = (1u << std::min(kDigitBits, end_bit - bit)) - 1;
    launch(count_digits<Key>, dim3(blocks), dim3(kSortThreads), params);
    run_scan(op, device, Starts{params.starts, tiles * kBins}, lines, tiles * kBins,
             ScanLayout::rows);
    launch(move_pairs<Key>, dim3(blocks), dim3(kSortThreads), params);
    std::swap(pairs, spare);
    values = pairs.values;
  }
  return pairs;
}

template Pairs<uint32_t> sort_lines_of_pairs(std::string_view, int, Pairs<uint32_t>,
                                             Pairs<uint32_t>, uint32_t*, int64_t, int64_t, int,
                                             int);
template Pairs<uint64_t> sort_lines_of_pairs(std::string_view, int, Pairs<uint64_t>,
                                             Pairs<uint64_t>, uint32_t*, int64_t, int64_t, int,
                                             int);

}  // namespace tensora::cuda
