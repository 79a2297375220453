#include <algorithm>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/sort/count_bins.h"

namespace tensora::cuda {
namespace {

// A few bins are counted in shared memory first, where many threads may add to one: a block adds
// its counts to the result at its end.
constexpr long long kSharedBins = 4096;

struct CountParams {
  const char* in;
  const char* weights;  // or null
  char* out;
  long long count, bins;
  DType dtype;
};

struct Integers {
  using Value = int64_t;
  long long bins;
  __device__ long long operator()(int64_t x) const { return x >= 0 && x < bins ? x : -1; }
};
template <class C>
struct Intervals : EqualIntervals<C> {
  using Value = C;
};

/// Sum: what is added up in shared memory; Out: in the result.
template <class Sum, class Out, bool shared, class BinOf>
__global__ void __launch_bounds__(kThreads)
    count_bins(const __grid_constant__ CountParams params, const BinOf bin_of) {
  using C = typename BinOf::Value;
  __shared__ Sum sums[shared ? kSharedBins : 1];
  if constexpr (shared) {
    for (unsigned b = threadIdx.x; b < params.bins; b += kThreads) sums[b] = Sum(0);
    __syncthreads();
  }
  const long long stride = static_cast<long long>(gridDim.x) * kThreads;
  const long long start = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  visit_any(params.dtype, [&]<class T>() {
    // Integers are counted by number, floats by interval.
    if constexpr (is_float_type<accumulate_t<T>> == is_float_type<C>) {
      for (long long i = start; i < params.count; i += stride) {
        const long long bin = bin_of(load_value<C>(reinterpret_cast<const T*>(params.in)[i]));
        if (bin < 0) continue;
        const Sum value = params.weights
                              ? static_cast<Sum>(reinterpret_cast<const Out*>(params.weights)[i])
                              : Sum(1);
        if constexpr (shared)
          atomicAdd(&sums[bin], value);
        else
          atomic_add(reinterpret_cast<Out*>(params.out) + bin, static_cast<Out>(value));
      }
    }
  });
  if constexpr (shared) {
    __syncthreads();
    for (unsigned b = threadIdx.x; b < params.bins; b += kThreads)
      if (sums[b] != Sum(0))
        atomic_add(reinterpret_cast<Out*>(params.out) + b, static_cast<Out>(sums[b]));
  }
}

template <class Sum, class Out, class BinOf>
void run_count(const KernelContext& context, const BinOf& bin_of, int64_t bins) {
  const View &in = context.input(0), &out = context.output();
  fill_elements(context.op, out, 0);
  if (in.numel == 0 || bins == 0) return;
  CountParams params{};
  params.in = in.as<const char>();
  if (context.in.size() > 1 && context.in[1]) params.weights = context.input(1).as<const char>();
  params.out = out.as<char>();
  params.count = in.numel;
  params.bins = bins;
  params.dtype = in.dtype;
  // A block counts at most 2^31 elements.
  constexpr int64_t kBlocksPerMultiprocessor = 8;
  const int device = context.device.index;
  const int64_t most =
      std::max(device_info(device).multiprocessors * kBlocksPerMultiprocessor, in.numel >> 30);
  const int64_t blocks = std::min((in.numel + kThreads - 1) / kThreads, most);
  const Launch launch{context.op, device};
  const dim3 grid(static_cast<unsigned>(blocks));
  if (bins <= kSharedBins)
    launch(count_bins<Sum, Out, true, BinOf>, grid, dim3(kThreads), params, bin_of);
  else
    launch(count_bins<Sum, Out, false, BinOf>, grid, dim3(kThreads), params, bin_of);
}

void count_integers_kernel(const KernelContext& context, const CountIntegersAttrs& attrs) {
  const Integers bin_of{attrs.bins};
  if (context.output().dtype == DType::float32)
    run_count<float, float>(context, bin_of, attrs.bins);
  else if (context.output().dtype == DType::float64)
    run_count<double, double>(context, bin_of, attrs.bins);
  else
    run_count<unsigned, int64_t>(context, bin_of, attrs.bins);
}

void count_intervals_kernel(const KernelContext& context, const CountIntervalsAttrs& attrs) {
  const auto run = [&]<class C>() {
    const Intervals<C> bin_of{{static_cast<C>(attrs.low), static_cast<C>(attrs.high), attrs.bins}};
    run_count<unsigned, int64_t>(context, bin_of, attrs.bins);
  };
  if (context.input(0).dtype == DType::float64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
}

}  // namespace

void register_bincount_cuda() {
  count_integers_op.set_kernel(DeviceType::cuda, count_integers_kernel);
  count_intervals_op.set_kernel(DeviceType::cuda, count_intervals_kernel);
}

}  // namespace tensora::cuda
