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
// block sorts a chunk of a row's arrivals and passes on those that can still win; rounds follow
// until one chunk is left, whose first ones are the result. For more samples than half a chunk,
// everything is sorted at once instead.

constexpr unsigned kRaceThreads = 256;
constexpr int64_t kChunk = 2048, kMostInRace = kChunk / 2;

struct Arrival {
  unsigned long long time;
  long long category;
};

struct RaceParams {
  const double* times;       // first round: rows runners, for weights that follow
  const Arrival* arrivals;   // later ones: the winners of the round before
  Arrival* winners;          // rows chunks samples; null in the last round,
  int64_t* out;              // which writes here: rows samples
  int64_t runners, samples;  // per row
};

__global__ void __launch_bounds__(kRaceThreads)
    race(const __grid_constant__ WeightParams weights, const __grid_constant__ RaceParams params) {
  __shared__ Arrival runners[kChunk];
  const int64_t row = blockIdx.x, begin = blockIdx.y * kChunk;
  const auto count = static_cast<unsigned>(min(kChunk, params.runners - begin));
  for (unsigned i = threadIdx.x; i < count; i += kRaceThreads) {
    const int64_t runner = row * params.runners + begin + i;
    runners[i] =
        params.times
            ? Arrival{arrival(params.times[runner], weights.weight(row, begin + i)), begin + i}
            : params.arrivals[runner];
  }
  sort_block(runners, count, [](const Arrival& a, const Arrival& b) {
    return a.time != b.time ? a.time < b.time : a.category < b.category;
  });
  for (unsigned i = threadIdx.x; i < params.samples; i += kRaceThreads) {
    // The last chunk may have too few; what never arrives takes their places.
    const Arrival winner = i < count ? runners[i] : Arrival{~0ull, LLONG_MAX};
    if (params.winners)
      params.winners[(row * gridDim.y + blockIdx.y) * params.samples + i] = winner;
    else
      params.out[row * params.samples + i] = winner.category;
  }
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
  for (int round = 0;; ++round) {
    const int64_t chunks = chunks_of(params.runners);
    params.winners = chunks == 1 ? nullptr : reinterpret_cast<Arrival*>(winners[round % 2].data());
    Launch{context.op, device}(
        race, dim3(static_cast<unsigned>(weights.rows), static_cast<unsigned>(chunks)),
        dim3(kRaceThreads), weights, params);
    if (chunks == 1) return;
    params.times = nullptr;
    params.arrivals = params.winners;
    params.runners = chunks * params.samples;
  }
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
