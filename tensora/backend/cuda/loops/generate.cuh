#pragma once

// Filling tensors with values that follow from the element's position: sequences and random
// numbers.

#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/runtime.h"
// nvcc does by itself the unrolling that philox.h asks GCC for.
#pragma nv_diag_suppress 1675
#include "tensora/core/philox.h"

namespace tensora::cuda {

/// out[i] = values.at<V>(i)
template <class Values, class V>
__global__ void __launch_bounds__(kThreads)
    sequence_kernel(const Values values, char* out, DType dtype, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const V value = values.template at<V>(i);
  visit_any(dtype, [&]<class T>() { reinterpret_cast<T*>(out)[i] = store_value<T>(value); });
}

/// Where a distribution's numbers begin. See Note [Random numbers in a graph].
template <class Distribution>
__device__ inline PhiloxState state_of(const Distribution& distribution,
                                       const ReplayRandom* replay) {
  return {replay ? replay->seed : distribution.seed,
          distribution.offset + (replay ? replay->offset : 0)};
}

/// The words of counter number `thread` of a distribution.
template <class Distribution>
__device__ inline PhiloxWords words_of(const Distribution& distribution, const ReplayRandom* replay,
                                       int64_t thread) {
  const PhiloxState begin = state_of(distribution, replay);
  return philox(begin.seed, begin.offset + thread);
}

/// Counters of a thread; what they share, like where the numbers begin, is found once.
inline constexpr int kCountersPerThread = 4;

/// In place of an element type: the dtype is known only to the launch.
struct AnyElement {};

/// See Note [Lanes] in core/philox.h: adjacent threads have adjacent counters. T is the type of the
/// elements.
template <class Distribution, class V, int kPerCounter, class T>
__global__ void __launch_bounds__(kThreads)
    random_kernel(const Distribution distribution, const ReplayRandom* replay, char* out,
                  DType dtype, int64_t count) {
  constexpr int kStride = kThreads * kPerCounter;  // elements between a thread's counters
  const int64_t counter = int64_t{blockIdx.x} * (kThreads * kCountersPerThread) + threadIdx.x;
  const int64_t first =
      counter / kPhiloxLanes * (kPhiloxLanes * kPerCounter) + counter % kPhiloxLanes;
  if (first >= count) return;
  const int left = static_cast<int>(min(count - first, int64_t{kStride} * kCountersPerThread));
  const PhiloxState begin = state_of(distribution, replay);
#pragma unroll 1
  for (int c = 0; c < kCountersPerThread; ++c) {
    const int here = c * kStride;
    if (here >= left) return;
    V values[kPerCounter];
    distribution.values(philox(begin.seed, begin.offset + counter + c * kThreads).word, values);
    const auto store = [&]<class Element>() {
      Element* const to = reinterpret_cast<Element*>(out) + first + here;
#pragma unroll
      for (int k = 0; k < kPerCounter; ++k)
        if (here + k * kPhiloxLanes < left) to[k * kPhiloxLanes] = store_value<Element>(values[k]);
    };
    if constexpr (std::is_same_v<T, AnyElement>)
      visit_any(dtype, store);
    else
      store.template operator()<T>();
  }
}

/// Calls launch(view) with a contiguous view of the output's shape, and copies the values to the
/// output if that is not contiguous.
template <class LaunchBody>
void generate(const KernelContext& context, LaunchBody&& launch) {
  const View& out = context.output();
  if (out.numel == 0) return;
  if (out.contiguous) return launch(out);
  const Scratch scratch(context.device.index, out.bytes());
  View packed = out;
  packed.data = scratch.data();
  packed.strides = contiguous_strides(out.sizes);
  packed.update();
  launch(packed);
  copy_elements(context.op, packed, out);
}

template <class V, class Values>
void generate_sequence(const KernelContext& context, const Values& values) {
  generate(context, [&](const View& out) {
    const dim3 blocks(static_cast<unsigned>((out.numel + kThreads - 1) / kThreads));
    Launch{context.op, context.device.index}(sequence_kernel<Values, V>, blocks, dim3(kThreads),
                                             values, out.as<char>(), out.dtype, out.numel);
  });
}

/// Makes a distribution start where this replay's numbers do, if a graph is being recorded.
template <class Distribution>
const ReplayRandom* replay_of(const KernelContext& context, Distribution& distribution) {
  PhiloxState state{distribution.seed, distribution.offset};
  const ReplayRandom* const replay = replay_random(context.op, state);
  distribution.offset = state.offset;
  return replay;
}

/// Fills contiguous memory.
template <class V, int kPerCounter, class Distribution>
void draw_random(const KernelContext& context, Distribution distribution, void* to, DType dtype,
                 int64_t count) {
  const ReplayRandom* const replay = replay_of(context, distribution);
  const auto counters = static_cast<int64_t>(philox_counters(count, kPerCounter));
  constexpr int64_t kPerBlock = kThreads * kCountersPerThread;
  const dim3 blocks(static_cast<unsigned>((counters + kPerBlock - 1) / kPerBlock));
  using Own = std::conditional_t<std::is_same_v<V, long long>, int64_t, V>;
  const auto kernel = dtype == dtype_of<Own>
                          ? random_kernel<Distribution, V, kPerCounter, Own>
                          : random_kernel<Distribution, V, kPerCounter, AnyElement>;
  Launch{context.op, context.device.index}(kernel, blocks, dim3(kThreads), distribution, replay,
                                           static_cast<char*>(to), dtype, count);
}

template <class V, int kPerCounter, class Distribution>
void generate_random(const KernelContext& context, const Distribution& distribution) {
  generate(context, [&](const View& out) {
    draw_random<V, kPerCounter>(context, distribution, out.data, out.dtype, out.numel);
  });
}

}  // namespace tensora::cuda
