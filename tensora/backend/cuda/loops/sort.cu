#include "tensora/backend/cuda/loops/sort.h"

#include <algorithm>
#include <type_traits>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/sort_key.h"

namespace tensora::cuda {
namespace {

// Note [Radix sort]
// A pass distributes the elements of a line into 256 bins by eight bits of their keys, and keeps
// the order within a bin: after passes over all bits, the lowest first, the elements are sorted.
// They are moved as they are, and their keys computed where a digit is needed. How many elements
// each bin will hold does not depend on their order, so one kernel reads them once and counts all
// digits, and a scan tells where the bins of every pass begin. Lines are cut into tiles, one block
// each. In a pass, a block finds where its tile's share of each bin begins by looking back (Note
// [Looking back] in compact.cuh), each thread for its bin. A word that a tile publishes is all that
// another one reads of it, so no fence is needed. What was published is cleared by the pass before,
// and for the first one, like the tickets, by a memset on the same stream, which a recorded graph
// repeats. A block sorts its tile by the digit in shared memory and writes the bins from there:
// what goes into one bin is adjacent, so that most of a write's bytes are used. Within a tile, an
// element must find how many before it go into the same bin. A warp takes its elements in rows of
// 32: one vote per bit of the digit tells each lane which lanes hold the same digit, and a counter
// per warp and bin remembers the rows before. A pass whose digit is the same everywhere would move
// nothing, and small integers have many such. Only the device knows: the blocks of that pass return
// at once, and every pass works out from the digits that differ where the elements are by now, such
// that the last one writes the result.

constexpr int kDigitBits = 8;
constexpr unsigned kBins = 1u << kDigitBits;
constexpr unsigned kSortThreads = 512, kWarps = kSortThreads / 32;
constexpr unsigned kMostDigits = 8;

/// What a tile has published of a bin: nothing yet (zero), its own count (plus one), or how many
/// elements this tile and all before it have in the bin.
constexpr unsigned kPrefix = 1u << 31;

/// An element of type T as bits.
template <class T>
using Bits = typename KeyBits<sizeof(T)>::Raw;

template <class T>
constexpr unsigned kRows = sizeof(T) == 8 ? 8 : 16;  // a tile must fit into shared memory
template <class T>
constexpr unsigned kTile = kSortThreads * kRows<T>;

/// Elements, and the values that move with them or null.
template <class T>
struct Moving {
  Bits<T>* elements;
  uint32_t* values;
};

template <class T>
struct SortParams {
  const Bits<T>* from /* lines count */;
  const uint32_t* from_values;  // or null: positions in the line
  Moving<T> to, spare;
  int64_t* indices;     // or null: the values are wanted as they are
  unsigned* tickets;    // per pass, how many tiles were handed out
  unsigned* differing;  // bit d: some line has elements whose digit d differs
  unsigned* starts;     // lines x digits x bins: counts, then where the bins begin
  unsigned* published;  // lines x tiles x bins, and as much again for the next pass
  unsigned count, tiles;
  int digits;
  SortKey<T> flip;

  __device__ SortKey<T> key(Bits<T> element) const {
    return sort_key(__builtin_bit_cast(T, element)) ^ flip;
  }
};

template <class Key>
__device__ inline unsigned digit_of(Key key, int digit) {
  return static_cast<unsigned>(key >> (kDigitBits * digit)) & (kBins - 1);
}

/// The bits in which the keys of a warp differ.
__device__ inline unsigned differing_bits(unsigned key) {
  return __reduce_or_sync(kWholeWarp, key ^ __shfl_sync(kWholeWarp, key, 0));
}
__device__ inline unsigned long long differing_bits(unsigned long long key) {
  const unsigned high = differing_bits(static_cast<unsigned>(key >> 32));
  return static_cast<unsigned long long>(high) << 32 | differing_bits(static_cast<unsigned>(key));
}

constexpr unsigned kCountRows = 8, kCountChunk = kSortThreads * kCountRows;

/// Counts all digits; `parts` blocks share a line.
template <class T>
__global__ void __launch_bounds__(kSortThreads)
    count_digits(const __grid_constant__ SortParams<T> params, unsigned parts) {
  __shared__ unsigned counts[sizeof(T) * kBins];
  const unsigned line = blockIdx.x / parts, part = blockIdx.x - line * parts;
  for (unsigned i = threadIdx.x; i < sizeof(T) * kBins; i += kSortThreads) counts[i] = 0;
  __syncthreads();
  const Bits<T>* const from = params.from + static_cast<long long>(line) * params.count;
  const unsigned lane = threadIdx.x % 32;
  for (long long chunk = static_cast<long long>(part) * kCountChunk; chunk < params.count;
       chunk += static_cast<long long>(parts) * kCountChunk) {
    const auto begin = static_cast<unsigned>(chunk) + threadIdx.x;
    Bits<T> loaded[kCountRows];
#pragma unroll
    for (unsigned r = 0; r < kCountRows; ++r) {
      const unsigned i = begin + r * kSortThreads;
      loaded[r] = i < params.count ? from[i] : 0;
    }
#pragma unroll
    for (unsigned r = 0; r < kCountRows; ++r) {
      const unsigned i = begin + r * kSortThreads;
      const bool whole = i - lane + 31 < params.count;
      const SortKey<T> key = params.key(loaded[r]);
      // The high digits of a warp's keys are often the same, and adding to one place takes turns.
      const SortKey<T> differing = whole ? differing_bits(key) : ~SortKey<T>(0);
      for (int d = 0; d < params.digits; ++d) {
        unsigned& bin = counts[static_cast<unsigned>(d) * kBins + digit_of(key, d)];
        if (digit_of(differing, d) != 0) {
          if (i < params.count) atomicAdd(&bin, 1u);
        } else if (lane == 0) {
          atomicAdd(&bin, 32u);
        }
      }
    }
  }
  __syncthreads();
  const auto digits = static_cast<unsigned>(params.digits);
  unsigned* const totals = params.starts + static_cast<size_t>(line) * digits * kBins;
  for (unsigned i = threadIdx.x; i < digits * kBins; i += kSortThreads)
    if (counts[i] != 0) atomicAdd(totals + i, counts[i]);
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

/// A block per line and digit: where the bins begin, and whether there is more than one.
__global__ void __launch_bounds__(kBins)
    start_bins(unsigned* starts, unsigned digits, unsigned count, unsigned* differing) {
  unsigned& bin = starts[static_cast<size_t>(blockIdx.x) * kBins + threadIdx.x];
  const unsigned mine = bin;
  bin = sum_below(mine);
  if (mine != 0 && mine != count) atomicOr(differing, 1u << blockIdx.x % digits);
}

/// What a pass reads and writes. The result is written by the last pass that is not idle, and by
/// every second one before it.
template <class T>
struct Turn {
  bool idle, last;
  unsigned number;  // among those that are not idle
  const Bits<T>* from;
  const uint32_t* from_values;
  Moving<T> to;

  __device__ Turn(const SortParams<T>& params, int digit) {
    // Where no digit differs, the lowest one copies the elements.
    const unsigned found = *params.differing, differing = found == 0 ? 1 : found;
    const unsigned after = differing >> digit;
    idle = (after & 1) == 0;
    last = after == 1;
    number = __popc(differing) - __popc(after);
    const bool to_result = __popc(after) % 2 == 1;
    const Moving<T> source = to_result ? params.spare : params.to;
    from = number == 0 ? params.from : source.elements;
    from_values = number == 0 ? params.from_values : source.values;
    to = to_result ? params.to : params.spare;
  }
};

/// The block's line and tile.
template <class T>
struct Place {
  unsigned line, tile, tile_start, present;
  long long line_start;

  __device__ Place(const SortParams<T>& params, unsigned ticket) {
    line = ticket / params.tiles;
    tile = ticket - line * params.tiles;
    tile_start = tile * kTile<T>;
    present = min(kTile<T>, params.count - tile_start);
    line_start = static_cast<long long>(line) * params.count;
  }
};

/// What the threads of a block tell each other while they sort their tile by a digit.
template <class T, bool with_values>
struct TileMemory {
  union {
    unsigned before[kWarps][kBins];  // of a warp's elements: counts, then where they begin
    Bits<T> staged[kTile<T>];
    uint32_t staged_values[with_values ? kTile<T> : 1];
  };
  unsigned shifts[kBins];  // from a place in the tile to one in the line
  unsigned ticket;
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

/// Finds how many elements of its warp go into the same bin before each of the thread's, of which
/// number r is number begin + 32 r of the tile; leaves the counts of the warps in `before`.
template <class T>
__device__ inline void rank_in_warp(const SortParams<T>& params, int digit,
                                    const Bits<T> (&elements)[kRows<T>], unsigned begin,
                                    unsigned present, unsigned* before /* kBins */,
                                    unsigned (&places)[kRows<T>]) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned r = 0; r < kRows<T>; ++r) {
    if (begin - lane + r * 32 >= present) break;  // for the whole warp
    const bool here = begin + r * 32 < present;
    const unsigned bin = digit_of(params.key(elements[r]), digit);
    const unsigned alike = lanes_alike(bin) & __ballot_sync(kWholeWarp, here);
    const unsigned below = __popc(alike & ((1u << lane) - 1));
    places[r] = before[bin] + below;
    __syncwarp();
    if (here && below == 0) before[bin] += __popc(alike);
    __syncwarp();
  }
}

/// How many elements the tiles before this one have in a bin, of which `published` is the column.
/// Several words are asked for at once; each is waited for where it is needed.
__device__ inline unsigned look_back(const volatile unsigned* published, unsigned tile) {
  constexpr int kTogether = 4;
  unsigned before = 0;
  for (int nearest = static_cast<int>(tile) - 1;; nearest -= kTogether) {
    unsigned words[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k)  // nothing comes before tile 0
      words[k] = nearest >= k ? published[static_cast<size_t>(nearest - k) * kBins] : kPrefix;
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      while (words[k] == 0) words[k] = published[static_cast<size_t>(nearest - k) * kBins];
      if ((words[k] & kPrefix) != 0) return before + (words[k] & ~kPrefix);
      before += words[k] - 1;
    }
  }
}

/// A bin of a tile.
struct TileBin {
  volatile unsigned* published;  // of the line's first tile
  unsigned* next;                // of this tile, in the next pass
  unsigned start;                // of the bin, in the line
  unsigned tile;

  template <class T>
  __device__ TileBin(const SortParams<T>& params, const Place<T>& place, unsigned bin,
                     unsigned turn, int digit)
      : tile(place.tile) {
    const size_t half = static_cast<size_t>(gridDim.x) * kBins;  // a block per tile
    unsigned* const first =
        params.published + static_cast<size_t>(place.line) * params.tiles * kBins + bin;
    published = first + (turn % 2 == 0 ? 0 : half);
    next = first + (turn % 2 == 0 ? half : 0) + static_cast<size_t>(tile) * kBins;
    start = params.starts[(static_cast<size_t>(place.line) * params.digits + digit) * kBins + bin];
  }
  __device__ void publish(unsigned word) const {
    published[static_cast<size_t>(tile) * kBins] = word;
  }
  __device__ void publish_count(unsigned count) const {
    publish(tile == 0 ? kPrefix | count : count + 1);
    *next = 0;
  }
  /// Where the tile's share begins in the line.
  __device__ unsigned find(unsigned count) const {
    if (tile == 0) return start;
    const unsigned before = look_back(published, tile);
    publish(kPrefix | (before + count));
    return start + before;
  }
};

/// From the counts of the warps: where their shares of the bins begin in the tile, and how places
/// in the tile become places in the line. Threads beyond the bins only help to scan.
template <class Memory>
__device__ inline void place_bins(const TileBin& bin, Memory& memory) {
  const bool has_bin = threadIdx.x < kBins;
  unsigned count = 0;
  if (has_bin) {
#pragma unroll
    for (unsigned w = 0; w < kWarps; ++w) count += memory.before[w][threadIdx.x];
    bin.publish_count(count);
  }
  const unsigned in_tile = sum_below(count);
  if (has_bin) {
    unsigned start = in_tile;
#pragma unroll
    for (unsigned w = 0; w < kWarps; ++w) {
      const unsigned of_warp = memory.before[w][threadIdx.x];
      memory.before[w][threadIdx.x] = start;
      start += of_warp;
    }
  }
  __syncthreads();
  if (has_bin) memory.shifts[threadIdx.x] = bin.find(count) - in_tile;
}

/// A pass: moves every tile's elements to their places by one digit.
template <class T, bool with_values>
__global__ void __launch_bounds__(kSortThreads, 2)
    move_tiles(const __grid_constant__ SortParams<T> params, int digit) {
  __shared__ TileMemory<T, with_values> memory;
  const Turn<T> turn(params, digit);
  if (turn.idle) return;
  for (unsigned i = threadIdx.x; i < kWarps * kBins; i += kSortThreads) memory.before[0][i] = 0;
  if (threadIdx.x == 0) memory.ticket = atomicAdd(params.tickets + turn.number, 1u);
  __syncthreads();
  const Place<T> place(params, memory.ticket);
  // A warp's elements are adjacent, and a row of them is read at once.
  const unsigned warp = threadIdx.x / 32, begin = warp * (32 * kRows<T>)+threadIdx.x % 32;
  const long long tile_at = place.line_start + place.tile_start;
  Bits<T> elements[kRows<T>];
#pragma unroll
  for (unsigned r = 0; r < kRows<T>; ++r)
    elements[r] = begin + r * 32 < place.present ? turn.from[tile_at + begin + r * 32] : 0;
  unsigned places[kRows<T>] = {};
  rank_in_warp(params, digit, elements, begin, place.present, memory.before[warp], places);
  __syncthreads();
  place_bins(TileBin(params, place, threadIdx.x % kBins, turn.number, digit), memory);
#pragma unroll
  for (unsigned r = 0; r < kRows<T>; ++r)
    places[r] += memory.before[warp][digit_of(params.key(elements[r]), digit)];
  __syncthreads();
#pragma unroll
  for (unsigned r = 0; r < kRows<T>; ++r)
    if (begin + r * 32 < place.present) memory.staged[places[r]] = elements[r];
  uint32_t values[kRows<T>];
  if constexpr (with_values) {
#pragma unroll
    for (unsigned r = 0; r < kRows<T>; ++r) {
      const unsigned i = begin + r * 32;
      values[r] = place.tile_start + i;
      if (turn.from_values && i < place.present) values[r] = turn.from_values[tile_at + i];
    }
  }
  __syncthreads();
  // The bins of what the thread writes, four to a word: registers are what limits the tile.
  unsigned bins[(kRows<T> + 3) / 4] = {};
#pragma unroll
  for (unsigned r = 0; r < kRows<T>; ++r) {
    const unsigned i = threadIdx.x + r * kSortThreads;
    if (i >= place.present) break;
    const Bits<T> element = memory.staged[i];
    const unsigned bin = digit_of(params.key(element), digit);
    bins[r / 4] |= bin << (r % 4 * kDigitBits);
    const unsigned target = i + memory.shifts[bin];
    turn.to.elements[place.line_start + target] = element;
  }
  if constexpr (with_values) {
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < kRows<T>; ++r)
      if (begin + r * 32 < place.present) memory.staged_values[places[r]] = values[r];
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < kRows<T>; ++r) {
      const unsigned i = threadIdx.x + r * kSortThreads;
      if (i >= place.present) break;
      const unsigned bin = bins[r / 4] >> (r % 4 * kDigitBits) & (kBins - 1);
      const unsigned target = i + memory.shifts[bin];
      const uint32_t value = memory.staged_values[i];
      if (turn.last && params.indices)
        params.indices[place.line_start + target] = value;
      else
        turn.to.values[place.line_start + target] = value;
    }
  }
}

/// How many blocks share the counting of a line.
unsigned counting_parts(int64_t lines, int64_t n, int device) {
  constexpr int64_t kBlocksPerMultiprocessor = 4;
  const int64_t blocks = device_info(device).multiprocessors * kBlocksPerMultiprocessor;
  const int64_t chunks = (n + kCountChunk - 1) / kCountChunk;
  return static_cast<unsigned>(std::clamp<int64_t>(blocks / lines, 1, chunks));
}

template <class T, bool with_values>
void run_sort(std::string_view op, int device, SortParams<T> params, int64_t lines, int64_t n,
              int bits) {
  if (lines == 0 || n == 0) return;
  const int64_t tiles = (n + kTile<T> - 1) / kTile<T>;
  const int digits = std::max(1, (bits + kDigitBits - 1) / kDigitBits);
  check(n < int64_t{1} << 31, op, ": sorting more than 2^31 elements is not supported on cuda");
  check(lines * std::max<int64_t>(tiles, digits) < int64_t{1} << 31, op, ": ", lines, " lines of ",
        n, " elements are too many to be sorted on cuda");
  const auto blocks = static_cast<size_t>(lines * tiles);
  const size_t start_words = static_cast<size_t>(lines * digits) * kBins;
  const size_t zero_words = 2 * kMostDigits + start_words + blocks * kBins;
  const Scratch control(device, (zero_words + blocks * kBins) * sizeof(unsigned));
  params.tickets = reinterpret_cast<unsigned*>(control.data());
  params.differing = params.tickets + kMostDigits;
  params.starts = params.tickets + 2 * kMostDigits;
  params.published = params.starts + start_words;
  params.count = static_cast<unsigned>(n);
  params.tiles = static_cast<unsigned>(tiles);
  params.digits = digits;
  const auto spare_count = digits == 1 ? 0 : static_cast<size_t>(lines * n);
  const Scratch spare(device, spare_count * sizeof(T));
  const Scratch spare_values(device, with_values ? spare_count * sizeof(uint32_t) : 0);
  params.spare = {reinterpret_cast<Bits<T>*>(spare.data()),
                  reinterpret_cast<uint32_t*>(spare_values.data())};
  use_device(device);
  check_cuda(
      cudaMemsetAsync(control.data(), 0, zero_words * sizeof(unsigned), current_stream(device)),
      op);
  const Launch launch{op, device};
  const unsigned parts = counting_parts(lines, n, device);
  launch(count_digits<T>, dim3(static_cast<unsigned>(lines) * parts), dim3(kSortThreads), params,
         parts);
  launch(start_bins, dim3(static_cast<unsigned>(lines * digits)), dim3(kBins), params.starts,
         static_cast<unsigned>(digits), params.count, params.differing);
  for (int digit = 0; digit < digits; ++digit)
    launch(move_tiles<T, with_values>, dim3(static_cast<unsigned>(blocks)), dim3(kSortThreads),
           params, digit);
}

}  // namespace

void sort_lines(const SortJob& job) {
  visit_dtype(job.dtype, [&]<class Element>() {
    using T = std::conditional_t<std::is_same_v<Element, bool>, uint8_t, Element>;  // same keys
    SortParams<T> params{};
    params.from = static_cast<const Bits<T>*>(job.from);
    // Until they are wanted as 64 bits, indices are moved as 32, in the same memory.
    params.to = {static_cast<Bits<T>*>(job.to), reinterpret_cast<uint32_t*>(job.indices)};
    params.indices = job.indices;
    params.flip = job.descending ? kKeyMask<T> : 0;
    if (job.indices)
      run_sort<T, true>(job.op, job.device, params, job.lines, job.length, kKeyBits<T>);
    else
      run_sort<T, false>(job.op, job.device, params, job.lines, job.length, kKeyBits<T>);
  });
}

void sort_pairs(std::string_view op, int device, SortPairs from, SortPairs to, int64_t n,
                int bits) {
  using T = uint64_t;
  SortParams<T> params{};
  params.from = reinterpret_cast<const Bits<T>*>(from.keys);
  params.from_values = from.values;
  params.to = {reinterpret_cast<Bits<T>*>(to.keys), to.values};
  run_sort<T, true>(op, device, params, 1, n, bits);
}

}  // namespace tensora::cuda
