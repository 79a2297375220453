#include "tensora/ops/random/sample.h"

#include <bit>
#include <climits>

#include "tensora/backend/cuda/loops/block_sort.cuh"
#include "tensora/backend/cuda/loops/generate.cuh"
#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/ordered.h"
#include "tensora/backend/cuda/loops/scan.cuh"
#include "tensora/ops/random/sample_values.h"

namespace tensora::cuda {
namespace {

dim3 blocks_for(int64_t count) {
  return dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads));
}

template <class V, class Distribution>
void draw(const KernelContext& context, const Distribution& distribution, void* to, int64_t count) {
  draw_random<V, kValuesPerCounter<V>>(context, distribution, to,
                                       std::is_same_v<V, double> ? kFloat64 : kInt64, count);
}

struct RowState;

struct WeightParams {
  const char* weights /* rows categories */;
  int64_t row_bytes, category_bytes;
  int64_t rows, categories, samples;
  RowState* states /* rows */;
  const char *op, *invalid, *zero_sum, *too_few;  // the last three: what may be wrong
  Fault* fault;
  DType dtype;
  bool replacement;

  __device__ double weight(int64_t row, int64_t category) const {
    return load_any<double>(weights + row * row_bytes + category * category_bytes, dtype);
  }
};

/// What is known of a row. All three are filled by atomics whose order does not matter; weights
/// above zero are ordered as their bits are.
struct RowState {
  unsigned long long largest, positive, invalid;

  __device__ double largest_weight() const {
    return invalid != 0 ? 0 : __longlong_as_double(static_cast<long long>(largest));
  }
};

constexpr int64_t kInspected = 16 * kThreads;  // weights of a row that a block looks at

__global__ void __launch_bounds__(kThreads)
    inspect_weights(const __grid_constant__ WeightParams params) {
  const int64_t row = blockIdx.x, begin = blockIdx.y * kInspected;
  const int64_t end = min(begin + kInspected, params.categories);
  double mine = 0;
  bool valid = true;
  unsigned positive = 0;
  for (int64_t category = begin + threadIdx.x; category < end; category += kThreads) {
    const double weight = params.weight(row, category);
    valid = valid && is_valid_weight(weight);
    mine = max(mine, weight);
    positive += weight > 0;
  }
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    mine = max(mine, __shfl_xor_sync(kWholeWarp, mine, distance));
    positive += __shfl_xor_sync(kWholeWarp, positive, distance);
  }
  valid = __all_sync(kWholeWarp, valid);
  if (threadIdx.x % 32 != 0) return;
  RowState& state = params.states[row];
  if (mine > 0)
    atomicMax(&state.largest, static_cast<unsigned long long>(__double_as_longlong(mine)));
  if (positive > 0) atomicAdd(&state.positive, static_cast<unsigned long long>(positive));
  if (!valid) atomicMax(&state.invalid, 1ull);
}

__global__ void __launch_bounds__(kThreads)
    judge_rows(const __grid_constant__ WeightParams params) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= params.rows) return;
  const RowState& state = params.states[row];
  if (state.invalid != 0)
    note_fault(params.fault, params.op, params.invalid);
  else if (state.positive == 0)
    note_fault(params.fault, params.op, params.zero_sum);
  else if (!params.replacement && state.positive < static_cast<uint64_t>(params.samples))
    note_fault(params.fault, params.op, params.too_few);
}

// The cumulative weights of each row. See Note [Weights as integers].
struct CumulativeWeights {
  using Acc = unsigned long long;
  struct Line {
    int64_t row;
    int exponent;
    bool usable;
  };
  WeightParams params;
  unsigned long long* through /* rows categories */;

  __device__ Line line(unsigned number) const {
    const double largest = params.states[number].largest_weight();
    const bool usable = largest > 0;
    return {number, usable ? weight_exponent(largest, params.categories) : 0, usable};
  }
  __device__ Acc init() const { return 0; }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ void load(const Line& line, long long first, int count,
                       Acc (&values)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k)
      values[k] = k < count && line.usable
                      ? integer_weight(params.weight(line.row, first + k), line.exponent)
                      : 0;
  }
  __device__ void store(const Line& line, long long first, int count, Acc,
                        const Acc (&sums)[kScanItems]) const {
    unsigned long long* const to = through + line.row * params.categories + first;
#pragma unroll
    for (int k = 0; k < kScanItems; ++k)
      if (k < count) to[k] = sums[k];
  }
};

// `out` holds a random word per sample, and gets the category whose interval holds its point.
__global__ void __launch_bounds__(kThreads)
    find_categories(const unsigned long long* through, long long* out /* rows samples */,
                    int64_t categories, int64_t samples, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const unsigned long long* const row = through + i / samples * categories;
  const unsigned long long point =
      RandomInteger::high_product(static_cast<unsigned long long>(out[i]), row[categories - 1]);
  int64_t low = 0, high = categories - 1;  // the last one has the rest
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (row[middle] > point)
      high = middle;
    else
      low = middle + 1;
  }
  out[i] = low;
}

// Note [A race in rounds]
// Drawing without replacement is a race in which the first `samples` categories to arrive win. A
// block takes a chunk of a row's runners and passes on, in their order, the `samples` that can
// still win: it finds the time by which so many have arrived bit by bit, counting at each who would
// have arrived before. Rounds follow until few are left, which are sorted. For very many samples,
// everything is sorted at once instead.

constexpr unsigned kRaceThreads = 256;
constexpr int kRunnersEach = 16;  // that a thread takes
constexpr int64_t kChunk = kRaceThreads * kRunnersEach;
constexpr int64_t kMostSorted = 2048, kMostInRace = kMostSorted / 2;

struct Arrival {
  unsigned long long time;
  long long category;
};
constexpr Arrival kNever{~0ull, LLONG_MAX};

struct RaceParams {
  const double* times;       // first round: rows runners, for weights that follow
  const Arrival* arrivals;   // later ones: the winners of the round before
  Arrival* winners;          // rows chunks samples; or, in the last round,
  int64_t* out;              // rows samples
  int64_t runners, samples;  // per row

  __device__ Arrival runner(const WeightParams& weights, int64_t row, int64_t position) const {
    if (position >= runners) return kNever;
    const int64_t at = row * runners + position;
    return times ? Arrival{arrival(times[at], weights.weight(row, position)), position}
                 : arrivals[at];
  }
};

/// The sum over a block. `turn` is another one than in the call before.
__device__ inline unsigned sum_of_block(unsigned mine, int turn) {
  constexpr unsigned kWarps = kRaceThreads / 32;
  __shared__ unsigned warps[2][kWarps];
  const unsigned of_warp = __reduce_add_sync(kWholeWarp, mine);
  if (threadIdx.x % 32 == 0) warps[turn][threadIdx.x / 32] = of_warp;
  __syncthreads();
  unsigned total = 0;
#pragma unroll
  for (unsigned w = 0; w < kWarps; ++w) total += warps[turn][w];
  return total;
}

/// counts[i] becomes the sum of those before it. Called by all threads of the block.
template <int kCount>
__device__ inline void sum_up_before(unsigned (&counts)[kCount]) {
  constexpr int kEach = kCount / 32;
  static_assert(kCount % 32 == 0);
  __syncthreads();
  if (threadIdx.x < 32) {
    const unsigned lane = threadIdx.x;
    unsigned mine = 0;
    for (int i = 0; i < kEach; ++i) mine += counts[lane * kEach + i];
    unsigned before = mine;
#pragma unroll
    for (unsigned delta = 1; delta < 32; delta *= 2) {
      const unsigned below = __shfl_up_sync(kWholeWarp, before, delta);
      if (lane >= delta) before += below;
    }
    before -= mine;
    for (int i = 0; i < kEach; ++i) {
      const unsigned count = counts[lane * kEach + i];
      counts[lane * kEach + i] = before;
      before += count;
    }
  }
  __syncthreads();
}

/// By when the winners of a chunk have arrived: all who come before `time`, and the first `more` of
/// those who come at that very time.
struct Finish {
  unsigned long long time;
  unsigned more;
};

__device__ inline Finish find_finish(const unsigned long long (&times)[kRunnersEach],
                                     unsigned samples) {
  Finish finish{0, samples};
  for (int bit = 63; bit >= 0 && finish.more > 0; --bit) {
    const unsigned long long later = finish.time | 1ull << bit;
    unsigned mine = 0;
#pragma unroll
    for (const unsigned long long time : times) mine += time < later;
    const unsigned before = sum_of_block(mine, bit % 2);
    if (before <= samples) finish = {later, samples - before};
  }
  return finish;
}

__global__ void __launch_bounds__(kRaceThreads)
    narrow_race(const __grid_constant__ WeightParams weights,
                const __grid_constant__ RaceParams params) {
  // Runner k of a thread is k * kRaceThreads behind its first.
  const int64_t row = blockIdx.x, first = blockIdx.y * kChunk + threadIdx.x;
  unsigned long long times[kRunnersEach];
#pragma unroll
  for (int k = 0; k < kRunnersEach; ++k)
    times[k] = params.runner(weights, row, first + k * kRaceThreads).time;
  const Finish finish = find_finish(times, static_cast<unsigned>(params.samples));
  constexpr unsigned kWarps = kRaceThreads / 32, kOne = 1u << 16;
  __shared__ unsigned counts[kRunnersEach * kWarps];  // those before that time; kOne each: at it
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int k = 0; k < kRunnersEach; ++k) {
    const unsigned earlier = __ballot_sync(kWholeWarp, times[k] < finish.time);
    const unsigned equal = __ballot_sync(kWholeWarp, times[k] == finish.time);
    if (lane == 0) counts[k * kWarps + warp] = __popc(earlier) + __popc(equal) * kOne;
  }
  sum_up_before(counts);
  Arrival* const to = params.winners + (row * gridDim.y + blockIdx.y) * params.samples;
  const unsigned lower = (1u << lane) - 1;
#pragma unroll
  for (int k = 0; k < kRunnersEach; ++k) {
    const bool is_earlier = times[k] < finish.time, is_equal = times[k] == finish.time;
    const unsigned before = counts[k * kWarps + warp];
    const unsigned earlier = before % kOne + __popc(__ballot_sync(kWholeWarp, is_earlier) & lower);
    const unsigned equal = before / kOne + __popc(__ballot_sync(kWholeWarp, is_equal) & lower);
    if (is_earlier || (is_equal && equal < finish.more))
      to[earlier + min(equal, finish.more)] = params.runner(weights, row, first + k * kRaceThreads);
  }
}

__global__ void __launch_bounds__(kRaceThreads)
    end_race(const __grid_constant__ WeightParams weights,
             const __grid_constant__ RaceParams params) {
  __shared__ Arrival runners[kMostSorted];
  const int64_t row = blockIdx.x;
  const auto count = static_cast<unsigned>(params.runners);
  for (unsigned i = threadIdx.x; i < count; i += kRaceThreads)
    runners[i] = params.runner(weights, row, i);
  sort_block(runners, count, [](const Arrival& a, const Arrival& b) {
    return a.time != b.time ? a.time < b.time : a.category < b.category;
  });
  for (unsigned i = threadIdx.x; i < params.samples; i += kRaceThreads)
    params.out[row * params.samples + i] = runners[i].category;
}

// keys[i], a random time, becomes when category i arrives.
__global__ void __launch_bounds__(kThreads)
    find_arrivals(const __grid_constant__ WeightParams params, SortPairs pairs) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= params.rows * params.categories) return;
  const double time = reinterpret_cast<const double*>(pairs.keys)[i];
  const int64_t row = i / params.categories;
  pairs.keys[i] = arrival(time, params.weight(row, i - row * params.categories));
  pairs.values[i] = static_cast<uint32_t>(i);
}

__global__ void __launch_bounds__(kThreads)
    number_rows(SortPairs pairs, int64_t categories, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) pairs.keys[i] = pairs.values[i] / categories;
}

__global__ void __launch_bounds__(kThreads)
    take_first(const uint32_t* values, int64_t* out /* rows samples */, int64_t categories,
               int64_t samples, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / samples, start = row * categories;
  out[i] = values[start + (i - row * samples)] - start;
}

void draw_with_replacement(const KernelContext& context, const MultinomialAttrs& attrs,
                           const WeightParams& params, int64_t* out) {
  const int device = context.device.index;
  const int64_t count = params.rows * params.samples;
  const Scratch scratch(device, static_cast<size_t>(params.rows * params.categories) * 8);
  auto* const through = reinterpret_cast<unsigned long long*>(scratch.data());
  run_scan(context.op, device, CumulativeWeights{params, through}, params.rows, params.categories,
           ScanLayout::rows);
  draw<long long>(context, RandomInteger{attrs.seed, attrs.offset, 0, 0}, out, count);
  Launch{context.op, device}(find_categories, blocks_for(count), dim3(kThreads), through,
                             reinterpret_cast<long long*>(out), params.categories, params.samples,
                             count);
}

void sort_arrivals(const KernelContext& context, const MultinomialAttrs& attrs,
                   const WeightParams& params, int64_t* out) {
  const int device = context.device.index;
  const int64_t all = params.rows * params.categories, count = params.rows * params.samples;
  const PairMemory memory(context.op, device, all);
  SortPairs pairs = memory.pairs(0), sorted = memory.pairs(1);
  draw<double>(context, Exponential{attrs.seed, attrs.offset}, pairs.keys, all);
  const Launch launch{context.op, device};
  launch(find_arrivals, blocks_for(all), dim3(kThreads), params, pairs);
  sort_pairs(context.op, device, pairs, sorted, all, 64);
  if (params.rows > 1) {  // back into rows, each in its order of arrival
    launch(number_rows, blocks_for(all), dim3(kThreads), sorted, params.categories, all);
    std::swap(pairs, sorted);
    const int row_bits = std::bit_width(static_cast<uint64_t>(params.rows - 1));
    sort_pairs(context.op, device, pairs, sorted, all, row_bits);
  }
  launch(take_first, blocks_for(count), dim3(kThreads), sorted.values, out, params.categories,
         params.samples, count);
}

int64_t chunks_of(int64_t runners) { return (runners + kChunk - 1) / kChunk; }

// See Note [A race in rounds].
void draw_without_replacement(const KernelContext& context, const MultinomialAttrs& attrs,
                              const WeightParams& weights, int64_t* out) {
  if (weights.samples > kMostInRace || chunks_of(weights.categories) > 65535)
    return sort_arrivals(context, attrs, weights, out);
  const int device = context.device.index;
  const auto rows = static_cast<unsigned>(weights.rows);
  const int64_t all = weights.rows * weights.categories;
  const Scratch times(device, static_cast<size_t>(all) * sizeof(double));
  draw<double>(context, Exponential{attrs.seed, attrs.offset}, times.data(), all);
  // The first round has the most winners; rounds take turns between two arrays of that size.
  const auto arrivals =
      static_cast<size_t>(weights.rows * chunks_of(weights.categories) * weights.samples);
  const Scratch winners[2] = {{device, arrivals * sizeof(Arrival)},
                              {device, arrivals * sizeof(Arrival)}};
  RaceParams params{};
  params.times = reinterpret_cast<const double*>(times.data());
  params.runners = weights.categories;
  params.samples = weights.samples;
  params.out = out;
  const Launch launch{context.op, device};
  const int64_t few = std::max<int64_t>(2 * weights.samples, 256);
  for (int round = 0; params.runners > few; ++round) {
    const int64_t chunks = chunks_of(params.runners);
    params.winners = reinterpret_cast<Arrival*>(winners[round % 2].data());
    launch(narrow_race, dim3(rows, static_cast<unsigned>(chunks)), dim3(kRaceThreads), weights,
           params);
    params.times = nullptr;
    params.arrivals = params.winners;
    params.runners = chunks * params.samples;
  }
  launch(end_race, dim3(rows), dim3(kRaceThreads), weights, params);
}

void inspect(const KernelContext& context, const WeightParams& params) {
  const int device = context.device.index;
  const size_t bytes = static_cast<size_t>(params.rows) * sizeof(RowState);
  const int64_t parts = (params.categories + kInspected - 1) / kInspected;
  check(parts <= 65535, context.op, ": ", params.categories,
        " categories are too many on cuda, at most ", 65535 * kInspected, " are supported");
  use_device(device);
  check_cuda(cudaMemsetAsync(params.states, 0, bytes, current_stream(device)), context.op);
  const Launch launch{context.op, device};
  launch(inspect_weights, dim3(static_cast<unsigned>(params.rows), static_cast<unsigned>(parts)),
         dim3(kThreads), params);
  launch(judge_rows, blocks_for(params.rows), dim3(kThreads), params);
}

void multinomial_kernel(const KernelContext& context, const MultinomialAttrs& attrs) {
  const View &weights = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const int device = context.device.index, last = weights.dim() - 1;
  const auto bytes = static_cast<int64_t>(element_size(weights.dtype));
  WeightParams params{};
  params.weights = weights.as<const char>();
  params.categories = weights.sizes[last];
  params.category_bytes = weights.strides[last] * bytes;
  params.rows = last == 0 ? 1 : weights.sizes[0];
  params.row_bytes = last == 0 ? 0 : weights.strides[0] * bytes;
  params.samples = attrs.num_samples;
  params.replacement = attrs.replacement;
  params.op = context.op.data();
  params.invalid = "a weight is negative, infinite or NaN";
  params.zero_sum = "the weights of a row sum to zero";
  params.too_few =
      "cannot draw that many without replacement: a row has fewer categories of weight above zero";
  params.fault = device_fault(device);
  params.dtype = weights.dtype;
  const Scratch states(device, static_cast<size_t>(params.rows) * sizeof(RowState));
  params.states = reinterpret_cast<RowState*>(states.data());
  inspect(context, params);
  if (attrs.replacement)
    draw_with_replacement(context, attrs, params, out.as<int64_t>());
  else
    draw_without_replacement(context, attrs, params, out.as<int64_t>());
}

}  // namespace

void register_sample_cuda() { multinomial_op.set_kernel(DeviceType::cuda, multinomial_kernel); }

}  // namespace tensora::cuda
