#pragma once

// Reductions over any dims. What depends on the reduction are four kernels per compute type; dims,
// strides, dtypes and the cutting of the work are handled around them.
//
// A reduction is a functor over a compute type C:
//   using Value = C;                            what comes in
//   using Acc;                                  accumulates
//   static constexpr bool kIndexed;             uses `index`, the position in the reduced range
//   static constexpr int kOutputs;
//   Acc init() const;                           the neutral element
//   Acc step(Acc, C, unsigned index) const;     takes one element in
//   Acc combine(Acc, Acc) const;                the second came later, or beside the first
//   auto first(Acc) const;                      what is stored in output 0
//   auto second(Acc) const;                     in output 1, if kOutputs is 2 and there is one
//
// Note [Deterministic reductions]
// No atomics: which thread adds what to what is decided by the shape alone. Where there are too few
// results to fill the device, the reduced range is cut into splits; each leaves a partial
// accumulator per result in scratch memory, and a second kernel combines them in order.

#include <cstdint>

#include "tensora/backend/cuda/pointwise.cuh"
#include "tensora/backend/cuda/reduce_params.cuh"

namespace tensora::cuda {

inline constexpr unsigned kReduceThreads = 256;

/// The functor's result at element `at` of the outputs; the kept walk's arrays are in, out 0,
/// out 1.
template <class F>
__device__ inline void store_result(const F& functor, const ReduceParams& params,
                                    const long long (&at)[3], typename F::Acc acc) {
  store_any(params.out[0] + at[1], params.out_dtype[0], functor.first(acc));
  if constexpr (F::kOutputs == 2) {
    if (params.out[1]) store_any(params.out[1] + at[2], params.out_dtype[1], functor.second(acc));
  }
}

template <class F>
__device__ inline void leave(const F& functor, const ReduceParams& params, unsigned output,
                             const long long (&at)[3], typename F::Acc acc) {
  if (params.splits == 1)
    store_result(functor, params, at, acc);
  else
    reinterpret_cast<typename F::Acc*>(
        params.partial)[size_t{blockIdx.y} * params.outputs + output] = acc;
}

// Rows: the threads of a row share the reduced range of one result. blockDim.x of them, a power of
// two, reduce together; blockDim.y results per block.
template <class F, bool kVector>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_rows(const __grid_constant__ ReduceParams params, const F functor) {
  using C = typename F::Value;
  using Acc = typename F::Acc;
  constexpr int V = kVector ? kGroup<C> : 1;
  __shared__ alignas(16) unsigned char shared[kReduceThreads * sizeof(Acc)];
  Acc* const accs = reinterpret_cast<Acc*>(shared) + threadIdx.y * blockDim.x;

  const unsigned output = blockIdx.x * blockDim.y + threadIdx.y;
  const bool active = output < params.outputs;
  long long at[3] = {0, 0, 0};
  if (active) params.kept.offsets(output, at);
  Acc lanes[V];
#pragma unroll
  for (int i = 0; i < V; ++i) lanes[i] = functor.init();
  const unsigned begin = blockIdx.y * params.steps_per_split;
  const unsigned end = min(params.steps, begin + params.steps_per_split);
  if (active) {
    const char* const in = params.in + at[0];
#pragma unroll 2
    for (unsigned step = begin + threadIdx.x; step < end; step += blockDim.x) {
      long long offset[1];
      params.reduced.offsets(step, offset);
      C values[V];
      visit_any(params.in_dtype, [&]<class T>() { load_pack<T>(in + offset[0], values); });
#pragma unroll
      for (int i = 0; i < V; ++i) lanes[i] = functor.step(lanes[i], values[i], step * V + i);
    }
    if constexpr (kVector) {
      // One reduced dim: the last split takes what does not fill a group, element by element.
      const unsigned tail = end == params.steps ? params.tail : 0;
      for (unsigned t = threadIdx.x; t < tail; t += blockDim.x) {
        const unsigned index = params.steps * V + t;
        const char* const from = in + static_cast<long long>(index) * params.element_bytes;
        lanes[0] = functor.step(lanes[0], load_any<C>(from, params.in_dtype), index);
      }
    }
  }
  Acc acc = lanes[0];
#pragma unroll
  for (int i = 1; i < V; ++i) acc = functor.combine(acc, lanes[i]);
  accs[threadIdx.x] = acc;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      accs[threadIdx.x] = functor.combine(accs[threadIdx.x], accs[threadIdx.x + half]);
  }
  if (active && threadIdx.x == 0) leave(functor, params, output, at, accs[0]);
}

// Columns: neighbouring threads hold neighbouring results, V each, and walk down the reduced range;
// blockDim.y threads share a column.
template <class F, bool kVector>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_columns(const __grid_constant__ ReduceParams params, const F functor) {
  using C = typename F::Value;
  using Acc = typename F::Acc;
  constexpr int V = kVector ? kGroup<C> : 1;
  __shared__ alignas(16) unsigned char shared[kReduceThreads * sizeof(Acc)];
  Acc* const accs = reinterpret_cast<Acc*>(shared);

  const unsigned group = blockIdx.x * blockDim.x + threadIdx.x;
  const bool active = group * V < params.outputs;
  long long at[3] = {0, 0, 0};
  if (active) params.kept.offsets(group, at);
  Acc lanes[V];
#pragma unroll
  for (int i = 0; i < V; ++i) lanes[i] = functor.init();
  const unsigned begin = blockIdx.y * params.steps_per_split;
  const unsigned end = min(params.steps, begin + params.steps_per_split);
  if (active) {
    const char* const in = params.in + at[0];
#pragma unroll 4
    for (unsigned step = begin + threadIdx.y; step < end; step += blockDim.y) {
      long long offset[1];
      params.reduced.offsets(step, offset);
      C values[V];
      visit_any(params.in_dtype, [&]<class T>() { load_pack<T>(in + offset[0], values); });
#pragma unroll
      for (int i = 0; i < V; ++i) lanes[i] = functor.step(lanes[i], values[i], step);
    }
  }
#pragma unroll
  for (int i = 0; i < V; ++i) {
    __syncthreads();
    accs[threadIdx.y * blockDim.x + threadIdx.x] = lanes[i];
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y < half) {
        Acc& mine = accs[threadIdx.y * blockDim.x + threadIdx.x];
        mine = functor.combine(mine, accs[(threadIdx.y + half) * blockDim.x + threadIdx.x]);
      }
    }
    if (active && threadIdx.y == 0) {
      // The outputs of a group lie side by side, as its inputs do.
      const long long here[3] = {0, at[1] + i * params.out_step[0], at[2] + i * params.out_step[1]};
      leave(functor, params, group * V + i, here, accs[threadIdx.x]);
    }
  }
}

template <class F>
__global__ void __launch_bounds__(kReduceThreads)
    combine_splits(const __grid_constant__ ReduceParams params, const F functor) {
  const unsigned output = blockIdx.x * kReduceThreads + threadIdx.x;
  if (output >= params.outputs) return;
  const auto* const partial = reinterpret_cast<const typename F::Acc*>(params.partial);
  typename F::Acc acc = functor.init();
  for (unsigned split = 0; split < params.splits; ++split)
    acc = functor.combine(acc, partial[size_t{split} * params.outputs + output]);
  long long at[3];
  params.finish.offsets(output, at);
  store_result(functor, params, at, acc);
}

/// A reduction's kernels for one compute type.
struct ReduceKernels {
  const void *rows, *rows_vector, *columns, *columns_vector, *combine;
  int group;
  size_t acc_bytes;
  bool indexed;
};

template <class F>
ReduceKernels reduce_kernels() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  return {address(&reduce_rows<F, false>),
          address(&reduce_rows<F, true>),
          address(&reduce_columns<F, false>),
          address(&reduce_columns<F, true>),
          address(&combine_splits<F>),
          kGroup<typename F::Value>,
          sizeof(typename F::Acc),
          F::kIndexed};
}

/// Reduces the dims of input 0 whose bit is set in `mask` into the outputs, whose dims are the kept
/// ones in order (dims of size 1 do not count).
void run_reduction(const KernelContext& context, uint32_t mask, const ReduceKernels& kernels,
                   const void* functor);

template <class F>
void reduce(const KernelContext& context, uint32_t mask, const F& functor) {
  static const ReduceKernels kernels = reduce_kernels<F>();
  run_reduction(context, mask, kernels, &functor);
}

/// Calls body.template operator()<C>() with the compute type that serves a floating `dtype`: double
/// for itself, float for the others.
template <class Body>
void visit_compute_floating(DType dtype, Body&& body) {
  if (dtype == DType::float64)
    body.template operator()<double>();
  else
    body.template operator()<float>();
}

/// The same with int64 for bool and the integers.
template <class Body>
void visit_compute(DType dtype, Body&& body) {
  if (is_floating_point(dtype))
    visit_compute_floating(dtype, body);
  else
    body.template operator()<int64_t>();
}

}  // namespace tensora::cuda
