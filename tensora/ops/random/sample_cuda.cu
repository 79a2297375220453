#include "tensora/ops/random/sample.h"

#include <bit>

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

// ---- randperm: see Note [Shuffling by sorting] --------------------------------------------------

__global__ void number_values(uint32_t* values, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) values[i] = static_cast<uint32_t>(i);
}

__global__ void store_values(const uint32_t* values, char* out, DType dtype, int64_t step,
                             int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) store_any<int64_t>(out + i * step, dtype, values[i]);
}

void randperm_kernel(const KernelContext& context, const RandomAttrs& attrs) {
  const View& out = context.output();
  const int64_t n = out.numel;
  if (n == 0) return;
  const int device = context.device.index;
  const PairMemory memory(context.op, device, n);
  const SortPairs pairs = memory.pairs(0);
  draw<long long>(context, RandomInteger{attrs.seed, attrs.offset, 0, 0}, pairs.keys, n);
  const Launch launch{context.op, device};
  launch(number_values, blocks_for(n), dim3(kThreads), pairs.values, n);
  // The lowest bits of a word give way to the element's number, in whose order the pairs are.
  const int number_bits = std::bit_width(std::bit_ceil(static_cast<uint64_t>(n)) - 1);
  const SortPairs sorted =
      sort_pairs(context.op, device, pairs, memory.pairs(1), n, number_bits, 64);
  launch(store_values, blocks_for(n), dim3(kThreads), sorted.values, out.as<char>(), out.dtype,
         out.strides[0] * static_cast<int64_t>(element_size(out.dtype)), n);
}

// ---- multinomial --------------------------------------------------------------------------------

struct WeightParams {
  const char* weights /* rows categories */;
  int64_t row_bytes, category_bytes;
  int64_t rows, categories, samples;
  double* largest /* rows */;
  const char *op, *invalid, *zero_sum, *too_few;  // the last three: what may be wrong
  Fault* fault;
  DType dtype;
  bool replacement;

  __device__ double weight(int64_t row, int64_t category) const {
    return load_any<double>(weights + row * row_bytes + category * category_bytes, dtype);
  }
};

// A block looks through a row: its largest weight, and whether it can be drawn from.
__global__ void __launch_bounds__(kThreads)
    inspect_rows(const __grid_constant__ WeightParams params) {
  __shared__ double largest[kThreads];
  const int64_t row = blockIdx.x;
  double mine = 0;
  bool valid = true;
  int positive = 0;
  for (int64_t first = 0; first < params.categories; first += kThreads) {
    const int64_t category = first + threadIdx.x;
    const double weight = category < params.categories ? params.weight(row, category) : 0;
    valid = valid && is_valid_weight(weight);
    mine = max(mine, weight);
    positive += __syncthreads_count(weight > 0);
  }
  largest[threadIdx.x] = mine;
  const bool all_valid = __syncthreads_and(valid);
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      largest[threadIdx.x] = max(largest[threadIdx.x], largest[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  if (!all_valid)
    note_fault(params.fault, params.op, params.invalid);
  else if (positive == 0)
    note_fault(params.fault, params.op, params.zero_sum);
  else if (!params.replacement && positive < params.samples)
    note_fault(params.fault, params.op, params.too_few);
  params.largest[row] = all_valid ? largest[0] : 0;
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
    const double largest = params.largest[number];
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

// `out` holds a random word per sample, and gets the category whose stretch holds its point.
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

void draw_without_replacement(const KernelContext& context, const MultinomialAttrs& attrs,
                              const WeightParams& params, int64_t* out) {
  const int device = context.device.index;
  const int64_t all = params.rows * params.categories, count = params.rows * params.samples;
  const PairMemory memory(context.op, device, all);
  SortPairs pairs = memory.pairs(0), spare = memory.pairs(1);
  draw<double>(context, Exponential{attrs.seed, attrs.offset}, pairs.keys, all);
  const Launch launch{context.op, device};
  launch(find_arrivals, blocks_for(all), dim3(kThreads), params, pairs);
  SortPairs sorted = sort_pairs(context.op, device, pairs, spare, all, 0, 64);
  if (params.rows > 1) {  // back into rows, each in its order of arrival
    launch(number_rows, blocks_for(all), dim3(kThreads), sorted, params.categories, all);
    if (sorted.keys != pairs.keys) std::swap(pairs, spare);
    const int row_bits = std::bit_width(static_cast<uint64_t>(params.rows - 1));
    sorted = sort_pairs(context.op, device, pairs, spare, all, 0, row_bits);
  }
  launch(take_first, blocks_for(count), dim3(kThreads), sorted.values, out, params.categories,
         params.samples, count);
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
  const Scratch largest(device, static_cast<size_t>(params.rows) * sizeof(double));
  params.largest = reinterpret_cast<double*>(largest.data());
  Launch{context.op, device}(inspect_rows, dim3(static_cast<unsigned>(params.rows)), dim3(kThreads),
                             params);
  if (attrs.replacement)
    draw_with_replacement(context, attrs, params, out.as<int64_t>());
  else
    draw_without_replacement(context, attrs, params, out.as<int64_t>());
}

}  // namespace

void register_sample_cuda() {
  randperm_op.set_kernel(DeviceType::cuda, randperm_kernel);
  multinomial_op.set_kernel(DeviceType::cuda, multinomial_kernel);
}

}  // namespace tensora::cuda
