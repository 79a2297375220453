#pragma once

// Scans: result i of a line combines its elements 0 … i. A line is whatever the functor says:
// a row or a column of an array, flags that become positions, sorted pairs that become sums.
//
// A scan is a functor:
//   using Acc;                                   trivially copyable, a multiple of 4 bytes
//   struct Line;                                 what is worth computing once per line
//   Line line(unsigned number) const;
//   Acc init() const;                            the neutral element
//   Acc combine(Acc before, Acc after) const;    associative; need not commute
//   void load(const Line&, long long first, int count, Acc (&values)[kScanItems]) const;
//                                                elements first …; neutral from `count` on
//   void store(const Line&, long long first, int count, Acc before,
//              const Acc (&through)[kScanItems]) const;
//                                                before: all in front of `first`; through[k]:
//                                                element first + k included
//
// Note [Scans in three phases]
// Lines are independent; where there are too few to fill the device, each is split into chunks:
//   1. every chunk is combined into its total,
//   2. the totals of a line are scanned, which gives the prefix before each chunk,
//   3. every chunk is scanned, starting from there.
// The elements are read twice. A single pass in which a block looks back at how far its
// predecessors have come would read them once, but what it finds there depends on timing, and with
// it the order in which floats are added. Here the shape alone decides: the same input gives the
// same bits.

#include <algorithm>
#include <bit>
#include <optional>

#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {

inline constexpr unsigned kScanThreads = 256;
inline constexpr int kScanItems = 8;  // adjacent elements of a thread

struct ScanParams {
  long long length, chunk;  // elements of a line, of a chunk
  unsigned lines, chunks;
  char* starts;  // lines x chunks accumulators: totals, then prefixes
};

/// The value of the thread `delta` lanes below.
template <class A>
__device__ inline A shuffle_up(A value, unsigned delta) {
  static_assert(sizeof(A) % sizeof(unsigned) == 0);
  unsigned words[sizeof(A) / sizeof(unsigned)];
  __builtin_memcpy(words, &value, sizeof(A));
#pragma unroll
  for (unsigned& word : words) word = __shfl_up_sync(0xffffffffu, word, delta);
  __builtin_memcpy(&value, words, sizeof(A));
  return value;
}

/// What the block's threads below this one hold, combined, and the total of all. All threads call.
template <class F>
__device__ inline typename F::Acc combine_below(const F& functor, typename F::Acc mine,
                                                typename F::Acc& total) {
  using Acc = typename F::Acc;
  __shared__ alignas(16) unsigned char shared[kScanThreads / 32 * sizeof(Acc)];
  Acc* const warps = reinterpret_cast<Acc*>(shared);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Acc through = mine;
#pragma unroll
  for (unsigned delta = 1; delta < 32; delta *= 2) {
    const Acc below = shuffle_up(through, delta);
    if (lane >= delta) through = functor.combine(below, through);
  }
  Acc before = shuffle_up(through, 1);
  if (lane == 0) before = functor.init();
  if (lane == 31) warps[warp] = through;
  __syncthreads();
  Acc sum = functor.init();
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    if (w == warp) before = functor.combine(sum, before);
    sum = functor.combine(sum, warps[w]);
  }
  total = sum;
  __syncthreads();  // the next call writes there
  return before;
}

/// Phase 1 or 3 of Note [Scans in three phases].
enum class ScanPhase { totals, results };

template <class F>
__device__ inline typename F::Acc chunk_start(const F& functor, const ScanParams& params,
                                              unsigned line) {
  if (params.chunks == 1) return functor.init();
  return reinterpret_cast<const typename F::Acc*>(
      params.starts)[size_t{line} * params.chunks + blockIdx.y];
}

/// How many of the kScanItems elements from `first` on lie before `end`.
__device__ inline int items_before(long long first, long long end) {
  return static_cast<int>(max(0ll, min(end - first, static_cast<long long>(kScanItems))));
}

// Rows: a block goes along a chunk of one line, a tile of kScanItems per thread at a time.
template <class F, ScanPhase kPhase>
__global__ void __launch_bounds__(kScanThreads)
    scan_rows(const __grid_constant__ ScanParams params, const F functor) {
  using Acc = typename F::Acc;
  const auto line = functor.line(blockIdx.x);
  const long long begin = blockIdx.y * params.chunk, end = min(params.length, begin + params.chunk);
  Acc carry =
      kPhase == ScanPhase::totals ? functor.init() : chunk_start(functor, params, blockIdx.x);
  for (long long tile = begin; tile < end; tile += blockDim.x * kScanItems) {
    const long long first = tile + threadIdx.x * kScanItems;
    const int count = items_before(first, end);
    Acc values[kScanItems];
    functor.load(line, first, count, values);
#pragma unroll
    for (int k = 1; k < kScanItems; ++k) values[k] = functor.combine(values[k - 1], values[k]);
    Acc total;
    Acc before = combine_below(functor, values[kScanItems - 1], total);
    if constexpr (kPhase == ScanPhase::results) {
      before = functor.combine(carry, before);
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) values[k] = functor.combine(before, values[k]);
      if (count > 0) functor.store(line, first, count, before, values);
    }
    carry = functor.combine(carry, total);
  }
  if constexpr (kPhase == ScanPhase::totals) {
    if (threadIdx.x == 0)
      reinterpret_cast<Acc*>(params.starts)[size_t{blockIdx.x} * params.chunks + blockIdx.y] =
          carry;
  }
}

// Columns: a thread goes along a chunk of its own line; adjacent threads have adjacent lines.
template <class F, ScanPhase kPhase>
__global__ void __launch_bounds__(kScanThreads)
    scan_columns(const __grid_constant__ ScanParams params, const F functor) {
  using Acc = typename F::Acc;
  const unsigned number = blockIdx.x * kScanThreads + threadIdx.x;
  if (number >= params.lines) return;
  const auto line = functor.line(number);
  const long long begin = blockIdx.y * params.chunk, end = min(params.length, begin + params.chunk);
  Acc carry = kPhase == ScanPhase::totals ? functor.init() : chunk_start(functor, params, number);
  for (long long first = begin; first < end; first += kScanItems) {
    const int count = items_before(first, end);
    const Acc before = carry;
    Acc values[kScanItems];
    functor.load(line, first, count, values);
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) carry = values[k] = functor.combine(carry, values[k]);
    if constexpr (kPhase == ScanPhase::results) functor.store(line, first, count, before, values);
  }
  if constexpr (kPhase == ScanPhase::totals)
    reinterpret_cast<Acc*>(params.starts)[size_t{number} * params.chunks + blockIdx.y] = carry;
}

/// Phase 2: the totals of a line's chunks become the prefixes before each.
template <class F>
struct ChunkStarts {
  using Acc = typename F::Acc;
  using Line = Acc*;
  F functor;
  Acc* starts;
  unsigned chunks;

  __device__ Line line(unsigned number) const { return starts + size_t{number} * chunks; }
  __device__ Acc init() const { return functor.init(); }
  __device__ Acc combine(Acc a, Acc b) const { return functor.combine(a, b); }
  __device__ void load(Line line, long long first, int count, Acc (&values)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) values[k] = k < count ? line[first + k] : init();
  }
  __device__ void store(Line line, long long first, int count, Acc before,
                        const Acc (&through)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k)
      if (k < count) line[first + k] = k == 0 ? before : through[k - 1];
  }
};

/// The layout of the lines: `rows` are contiguous, `columns` are adjacent to each other.
enum class ScanLayout { rows, columns };

/// How many chunks each line is split into, and how long they are.
inline void cut_lines(ScanParams& params, int64_t blocks, int64_t step, int device) {
  constexpr int64_t kBlocksPerMultiprocessor = 8, kMinSteps = 4, kMaxChunks = 65535;
  const int64_t wanted = device_info(device).multiprocessors * kBlocksPerMultiprocessor / blocks;
  const int64_t useful = params.length / (step * kMinSteps);
  const int64_t chunks = std::clamp<int64_t>(std::min(wanted, useful), 1, kMaxChunks);
  const int64_t steps = (params.length + step - 1) / step;
  params.chunk = (steps + chunks - 1) / chunks * step;
  params.chunks = static_cast<unsigned>((params.length + params.chunk - 1) / params.chunk);
}

/// Scans `lines` lines of `length` elements; queued on the current stream.
template <class F>
void run_scan(std::string_view op, int device, const F& functor, int64_t lines, int64_t length,
              ScanLayout layout) {
  using Acc = typename F::Acc;
  if (lines == 0 || length == 0) return;
  check(lines < int64_t{1} << 31, op, ": more than 2^31 lines are not supported on cuda");
  constexpr int64_t kShort = 64;  // lines that a thread goes along faster than a block
  const bool columns =
      (layout == ScanLayout::columns && lines > 1) || (length <= kShort && lines > 32);
  const auto per_thread = static_cast<unsigned>(
      std::min<int64_t>((length + kScanItems - 1) / kScanItems, kScanThreads));
  const unsigned threads =
      columns ? kScanThreads : std::clamp(std::bit_ceil(per_thread), 32u, kScanThreads);
  const int64_t blocks = columns ? (lines + kScanThreads - 1) / kScanThreads : lines;
  ScanParams params{};
  params.lines = static_cast<unsigned>(lines);
  params.length = length;
  cut_lines(params, blocks, columns ? kScanItems : threads * kScanItems, device);
  const dim3 grid(static_cast<unsigned>(blocks), params.chunks);
  const Launch launch{op, device};
  std::optional<Scratch> starts;
  if (params.chunks > 1) {
    starts.emplace(device, size_t{params.lines} * params.chunks * sizeof(Acc));
    params.starts = starts->data();
    launch(columns ? scan_columns<F, ScanPhase::totals> : scan_rows<F, ScanPhase::totals>, grid,
           dim3(threads), params, functor);
    const ChunkStarts<F> totals{functor, reinterpret_cast<Acc*>(params.starts), params.chunks};
    const ScanParams whole{.length = params.chunks,
                           .chunk = params.chunks,
                           .lines = params.lines,
                           .chunks = 1,
                           .starts = nullptr};
    launch(scan_rows<ChunkStarts<F>, ScanPhase::results>, dim3(params.lines), dim3(kScanThreads),
           whole, totals);
  }
  launch(columns ? scan_columns<F, ScanPhase::results> : scan_rows<F, ScanPhase::results>, grid,
         dim3(threads), params, functor);
}

}  // namespace tensora::cuda
