#pragma once

// Reductions over any dims. Only four kernels per compute type depend on the reduction; dims,
// strides, dtypes and the partition of the work are handled around them.
//
// core/reduction.h describes the functors. A thread accumulates lanes, threads and splits are
// combined as accumulators.
//
// Note [Deterministic reductions]
// No atomics: which thread adds what to what is decided by the shape alone. Where there are too few
// results to fill the device, the reduced range is divided into splits; each leaves a partial
// accumulator per result in scratch memory, and a second kernel combines them in a fixed order.
//
// Note [Loads in flight]
// A reduction is memory-bound, so what counts is how many bytes are in flight. The input's dtype is
// examined once, outside the loop; inside, a thread issues kLoads loads of up
// to 16 bytes before it uses the first, and spreads the elements over kLanes accumulators, which
// also keeps the runs that one accumulator adds up short.

#include <cstdint>

#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/loops/reduce_params.cuh"
#include "tensora/core/reduction.h"

namespace tensora::cuda {

inline constexpr unsigned kReduceThreads = 256;

/// The functor's result at element `at` of the outputs; the kept walk's arrays are in, out 0,
/// out 1.
template <class F>
__device__ inline void store_result(const F& functor, const ReduceParams& params,
                                    const long long (&at)[3], typename F::Acc acc) {
  store_any(params.out[0] + at[1], params.out_dtype[0], functor.finish(acc));
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

/// Loads of a thread that are in flight together.
inline constexpr unsigned kLoads = 4;

/// Note [Runs]
/// A functor may take the elements that a thread has in registers together, instead of one by one:
///   template <int N, int W> void take(Lane (&lanes)[W], const C (&x)[N][W]) const;
/// x[0 … N)[w] go to lanes[w]; all W lanes have taken equally many elements before.
template <class F>
inline constexpr bool kTakesRuns =
    requires(const F& functor, typename F::Lane (&lanes)[1], const typename F::Value (&x)[1][1]) {
      functor.take(lanes, x);
    };

/// Blocks that fit on a multiprocessor together, whose registers are divided among them. There are
/// as many splits as run at the same time: a few more would take as long as twice as many.
template <class F>
inline constexpr int kRowBlocks = sizeof(typename F::Lane) <= 4                    ? 5
                                  : sizeof(typename F::Lane) <= 8 || kTakesRuns<F> ? 4
                                                                                   : 3;
template <class F>
inline constexpr int kColumnBlocks = sizeof(typename F::Lane) <= sizeof(typename F::Value) ? 5 : 3;

/// Accumulators of a thread.
template <class F>
inline constexpr int kLanes = kTakesRuns<F> ? 1 : 32 / static_cast<int>(sizeof(typename F::Value));

/// Elements of type T that one load brings: up to 16 bytes, 8 of them at most.
template <class T>
inline constexpr int kLoadElements = sizeof(T) == 1 ? 8 : 16 / static_cast<int>(sizeof(T));

/// Whether the fast loops of compute type C read `dtype`.
template <class C>
TENSORA_HD constexpr bool reads_directly(DType dtype) {
  if (sizeof(C) == 4)
    return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
  if (is_float_type<C>) return dtype == DType::float64;
  return dtype == DType::int64 || dtype == DType::int32 || dtype == DType::uint8 ||
         dtype == DType::int8 || dtype == DType::boolean;
}

// The input's element type, outside the loop; bool is read as the bytes 0 and 1.
template <class C, class Body>
__device__ inline void visit_reduced(DType dtype, Body&& body) {
  if constexpr (sizeof(C) == 4) {
    if (dtype == DType::float16)
      body.template operator()<Half>();
    else if (dtype == DType::bfloat16)
      body.template operator()<BFloat16>();
    else
      body.template operator()<float>();
  } else if constexpr (is_float_type<C>) {
    body.template operator()<double>();
  } else {
    if (dtype == DType::int64)
      body.template operator()<int64_t>();
    else if (dtype == DType::int32)
      body.template operator()<int>();
    else if (dtype == DType::int8)
      body.template operator()<signed char>();
    else
      body.template operator()<unsigned char>();
  }
}

template <class F>
__device__ inline typename F::Lane step_lane(const F& functor, typename F::Lane lane,
                                             typename F::Value value, unsigned index) {
  if constexpr (F::kIndexed)
    return functor.step(lane, value, index);
  else
    return functor.step(lane, value);
}

/// Gives kSteps fetched groups of G elements to the lanes; the first of them is step number `step`,
/// and `stride` steps lie between them. kAcross: a group belongs to as many results, else to one.
template <class T, int G, bool kAcross, int kSteps, class F, int kCount>
__device__ inline void take_groups(const F& functor, const RawGroup* raw, unsigned step,
                                   unsigned stride, typename F::Lane (&lanes)[kCount]) {
  using C = typename F::Value;
  if constexpr (kTakesRuns<F>) {
    C x[kAcross ? kSteps : kSteps * G][kAcross ? G : 1];
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int i = 0; i < G; ++i)
        x[kAcross ? s : s * G + i][kAcross ? i : 0] = load_value<C>(element_of<T>(raw[s], i));
    functor.take(lanes, x);
  } else {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int i = 0; i < G; ++i) {
        auto& lane = lanes[kAcross ? i : (s * G + i) % kCount];
        const unsigned number = step + s * stride, index = kAcross ? number : number * G + i;
        lane = step_lane(functor, lane, load_value<C>(element_of<T>(raw[s], i)), index);
      }
  }
}

/// Takes the steps begin, begin + stride, … below `end` into the lanes. One step is a load of G
/// elements; see take_groups.
template <class T, int G, bool kAcross, class F, int kCount>
__device__ inline void take_steps(const F& functor, const ReduceParams& params, const char* in,
                                  unsigned begin, unsigned stride, unsigned end,
                                  typename F::Lane (&lanes)[kCount]) {
  unsigned step = begin;
  if (params.reduced.dims == 1) {
    const long long bytes = params.reduced.strides[0][0];
    while (step < end && end - step > (kLoads - 1) * stride) {
      RawGroup raw[kLoads];
#pragma unroll
      for (unsigned load = 0; load < kLoads; ++load)
        fetch<sizeof(T) * G>(in + (step + load * stride) * bytes, raw[load]);
      take_groups<T, G, kAcross, kLoads>(functor, raw, step, stride, lanes);
      step += kLoads * stride;
    }
  }
  // What is left of one dim, or all of several.
#pragma unroll 1
  while (step < end) {
    RawGroup raw[kLoads];
#pragma unroll
    for (unsigned load = 0; load < kLoads; ++load)
      if (step + load * stride < end) {
        long long at[1];
        params.reduced.offsets(step + load * stride, at);
        fetch<sizeof(T) * G>(in + at[0], raw[load]);
      }
#pragma unroll
    for (unsigned load = 0; load < kLoads; ++load)
      if (step + load * stride < end)
        take_groups<T, G, kAcross, 1>(functor, raw + load, step + load * stride, stride, lanes);
    step += kLoads * stride;
  }
}

/// The same for any dtype, element by element.
template <class F>
__device__ inline void take_any(const F& functor, const ReduceParams& params, const char* in,
                                unsigned begin, unsigned stride, unsigned end,
                                typename F::Lane& lane) {
#pragma unroll 1
  for (unsigned step = begin; step < end; step += stride) {
    long long at[1];
    params.reduced.offsets(step, at);
    const auto value = load_any<typename F::Value>(in + at[0], params.in_dtype);
    lane = step_lane(functor, lane, value, step);
  }
}

/// A thread's share of a result: the elements [first, last) of each of its steps.
struct ThreadShare {
  const char* in;
  unsigned begin, stride, end;
  int first, last;
};

/// See Note [Taken again] in core/reduction.h. `tail` elements follow the last step, dealt out to
/// the threads.
template <class T, class F>
__device__ inline typename F::Acc again_if_needed(const F& functor, typename F::Acc acc,
                                                  const ReduceParams& params,
                                                  const ThreadShare& slice, unsigned tail) {
  if constexpr (requires { functor.wide(); }) {
    if (functor.fits(acc)) return acc;
    const auto wide = functor.wide();
    auto lane = wide.lane();
    const auto take = [&](const char* from, unsigned i) {
      lane = wide.step(lane, load_value<double>(reinterpret_cast<const T*>(from)[i]));
    };
#pragma unroll 1
    for (unsigned step = slice.begin; step < slice.end; step += slice.stride) {
      long long at[1];
      params.reduced.offsets(step, at);
#pragma unroll 1
      for (int i = slice.first; i < slice.last; ++i) take(slice.in + at[0], i);
    }
#pragma unroll 1
    for (unsigned t = threadIdx.x; t < tail; t += slice.stride)
      take(slice.in, params.steps * slice.last + t);
    return wide.widen(lane);
  } else {
    return acc;
  }
}

template <class Lane, int kCount>
struct Lanes {
  Lane values[kCount];

  template <class F>
  __device__ explicit Lanes(const F& functor) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = functor.lane();
  }
  /// Pairwise.
  template <class F>
  __device__ typename F::Acc join(const F& functor) {
    if constexpr (kCount > 1) {
#pragma unroll
      for (int half = kCount / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; ++i) values[i] = functor.merge(values[i], values[i + half]);
    }
    return functor.widen(values[0]);
  }
};

/// Combines accs[0], accs[stride], … accs[(count - 1) * stride] of `count` threads (a power of two)
/// into the first; `rank` is the thread's number among them. All threads of the block call this.
template <class F>
__device__ inline void join_threads(const F& functor, typename F::Acc* accs, unsigned rank,
                                    unsigned count, unsigned stride) {
  for (unsigned half = count / 2; half > 0; half /= 2) {
    __syncthreads();
    if (rank < half)
      accs[rank * stride] = functor.combine(accs[rank * stride], accs[(rank + half) * stride]);
  }
}

/// A value of any plain type from the lane that is `distance` further.
template <class A>
__device__ inline A from_further_lane(const A& value, unsigned distance) {
  struct Words {
    unsigned word[(sizeof(A) + sizeof(unsigned) - 1) / sizeof(unsigned)];
  } words{};
  __builtin_memcpy(&words, &value, sizeof(A));
#pragma unroll
  for (unsigned& word : words.word) word = __shfl_down_sync(kWholeWarp, word, distance);
  A further;
  __builtin_memcpy(&further, &words, sizeof(A));
  return further;
}

/// The same, in the same order, of adjacent threads: returns the result to the first of them. Those
/// of one warp wait for nobody.
template <class F>
__device__ inline typename F::Acc join_neighbours(const F& functor, typename F::Acc* accs,
                                                  unsigned rank, unsigned count,
                                                  typename F::Acc acc) {
  constexpr unsigned kWarp = 32;
  if (count > kWarp) accs[rank] = acc;
  for (unsigned half = count / 2; half >= kWarp; half /= 2) {
    __syncthreads();
    if (rank < half) accs[rank] = acc = functor.combine(acc, accs[rank + half]);
  }
  for (unsigned half = min(count, kWarp) / 2; half > 0; half /= 2)
    acc = functor.combine(acc, from_further_lane(acc, half));
  return acc;
}

// Rows: the threads of a row share the reduced range of one result. blockDim.x of them, a power of
// two, reduce together; blockDim.y results per block.
template <class F, bool kVector>
__global__ void __launch_bounds__(kReduceThreads, kRowBlocks<F>)
    reduce_rows(const __grid_constant__ ReduceParams params, const F functor) {
  using C = typename F::Value;
  using Acc = typename F::Acc;
  __shared__ alignas(16) unsigned char shared[kReduceThreads * sizeof(Acc)];
  Acc* const accs = reinterpret_cast<Acc*>(shared) + threadIdx.y * blockDim.x;

  const unsigned output = blockIdx.x * blockDim.y + threadIdx.y;
  const bool active = output < params.outputs;
  long long at[3] = {0, 0, 0};
  if (active) params.kept.offsets(output, at);
  const unsigned begin = blockIdx.y * params.steps_per_split;
  const unsigned end = active ? min(params.steps, begin + params.steps_per_split) : 0;
  const char* const in = params.in + at[0];
  Lanes<typename F::Lane, kLanes<F>> lanes(functor);
  Acc acc;
  if (!kVector && !reads_directly<C>(params.in_dtype)) {
    take_any(functor, params, in, begin + threadIdx.x, blockDim.x, end, lanes.values[0]);
    acc = lanes.join(functor);
  } else {
    visit_reduced<C>(params.in_dtype, [&]<class T>() {
      constexpr int G = kVector ? kLoadElements<T> : 1;
      take_steps<T, G, false>(functor, params, in, begin + threadIdx.x, blockDim.x, end,
                              lanes.values);
      // One reduced dim: the last split takes what does not fill a load, element by element.
      if (kVector && active && end == params.steps)
        for (unsigned t = threadIdx.x; t < params.tail; t += blockDim.x) {
          const unsigned index = params.steps * G + t;
          const C value = load_value<C>(reinterpret_cast<const T*>(in)[index]);
          lanes.values[0] = step_lane(functor, lanes.values[0], value, index);
        }
      const ThreadShare slice{in, begin + threadIdx.x, blockDim.x, end, 0, G};
      const unsigned tail = kVector && active && end == params.steps ? params.tail : 0;
      acc = again_if_needed<T>(functor, lanes.join(functor), params, slice, tail);
    });
  }
  acc = join_neighbours(functor, accs, threadIdx.x, blockDim.x, acc);
  if (active && threadIdx.x == 0) leave(functor, params, output, at, acc);
}

// Columns: adjacent threads hold adjacent results, as many each as a load brings, and go down the
// reduced range; blockDim.y threads share a column.
template <class F, bool kVector>
__global__ void __launch_bounds__(kReduceThreads, kColumnBlocks<F>)
    reduce_columns(const __grid_constant__ ReduceParams params, const F functor) {
  using C = typename F::Value;
  using Acc = typename F::Acc;
  __shared__ alignas(16) unsigned char shared[kReduceThreads * sizeof(Acc)];
  Acc* const accs = reinterpret_cast<Acc*>(shared) + threadIdx.x;

  const unsigned group = blockIdx.x * blockDim.x + threadIdx.x;
  const bool active = group < params.lanes;
  long long at[3] = {0, 0, 0};
  if (active) params.kept.offsets(group, at);
  const unsigned begin = blockIdx.y * params.steps_per_split;
  const unsigned end = active ? min(params.steps, begin + params.steps_per_split) : 0;
  const char* const in = params.in + at[0];
  const auto finish = [&](Acc acc, unsigned i, unsigned width) {
    accs[threadIdx.y * blockDim.x] = acc;
    join_threads(functor, accs, threadIdx.y, blockDim.y, blockDim.x);
    if (active && threadIdx.y == 0) {
      // The outputs of a group are adjacent, as its inputs are.
      const long long here[3] = {0, at[1] + i * params.out_step[0], at[2] + i * params.out_step[1]};
      leave(functor, params, group * width + i, here, accs[0]);
    }
    __syncthreads();
  };
  if (!kVector && !reads_directly<C>(params.in_dtype)) {
    typename F::Lane lane = functor.lane();
    take_any(functor, params, in, begin + threadIdx.y, blockDim.y, end, lane);
    return finish(functor.widen(lane), 0, 1);
  }
  visit_reduced<C>(params.in_dtype, [&]<class T>() {
    constexpr int G = kVector ? kLoadElements<T> : 1;
    Lanes<typename F::Lane, G> lanes(functor);
    take_steps<T, G, true>(functor, params, in, begin + threadIdx.y, blockDim.y, end, lanes.values);
#pragma unroll
    for (int i = 0; i < G; ++i) {
      const ThreadShare slice{in, begin + threadIdx.y, blockDim.y, end, i, i + 1};
      const Acc acc = again_if_needed<T>(functor, functor.widen(lanes.values[i]), params, slice, 0);
      finish(acc, i, G);
    }
  });
}

// blockDim.y threads share the splits of a result; adjacent threads have adjacent results.
template <class F>
__global__ void __launch_bounds__(kReduceThreads)
    combine_splits(const __grid_constant__ ReduceParams params, const F functor) {
  using Acc = typename F::Acc;
  __shared__ alignas(16) unsigned char shared[kReduceThreads * sizeof(Acc)];
  Acc* const accs = reinterpret_cast<Acc*>(shared) + threadIdx.x;
  const unsigned output = blockIdx.x * blockDim.x + threadIdx.x;
  const bool active = output < params.outputs;
  const auto* const partial = reinterpret_cast<const Acc*>(params.partial);
  Acc acc = functor.widen(functor.lane());
  if (active) {
#pragma unroll 4
    for (unsigned split = threadIdx.y; split < params.splits; split += blockDim.y)
      acc = functor.combine(acc, partial[size_t{split} * params.outputs + output]);
  }
  accs[threadIdx.y * blockDim.x] = acc;
  join_threads(functor, accs, threadIdx.y, blockDim.y, blockDim.x);
  if (!active || threadIdx.y != 0) return;
  long long at[3];
  params.finish.offsets(output, at);
  store_result(functor, params, at, accs[0]);
}

/// A reduction's kernels for one compute type.
struct ReduceKernels {
  const void *rows, *rows_vector, *columns, *columns_vector, *combine;
  bool (*reads_directly)(DType);
  size_t acc_bytes;
  bool indexed;
  int row_blocks, column_blocks;  // that fit on a multiprocessor together
};

template <class F>
ReduceKernels reduce_kernels() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  return {address(&reduce_rows<F, false>),
          address(&reduce_rows<F, true>),
          address(&reduce_columns<F, false>),
          address(&reduce_columns<F, true>),
          address(&combine_splits<F>),
          reads_directly<typename F::Value>,
          sizeof(typename F::Acc),
          F::kIndexed,
          kRowBlocks<F>,
          kColumnBlocks<F>};
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
