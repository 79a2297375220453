#pragma once

// Reading from lines, and writing and adding to them, in shared memory.

#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {

/// Indices of a thread. It reads all of them, then all the data, so that it waits for memory twice
/// and not twice per element.
inline constexpr int kIndicesPerThread = 4;

/// Note [Lines on the chip]
/// Where there are enough lines along `dim` to occupy the device, and each is short, lies in one
/// run and is met by many indices, a block holds a line in shared memory, and memory sees each line
/// once. Elements that lie anywhere in it cost the access of a bank each, where the cache looks up
/// a line of its own for each; additions that meet do so on the chip, and sums of half types are
/// rounded once.
struct LineParams {
  const char* start;  // of an op that writes: what its lines are at first; none: 0
  char* plain;
  const char* index;
  char* data;
  unsigned lines;
  int length, values;  // of a line: elements of the data, indices
  IndexLimits limits;
  DType index_dtype;
  bool one_value;  // the plain side is one element for all
};

/// `count` elements of one line; both addresses are those of lines of that length.
template <class T>
__device__ inline void copy_line(const T* from, T* to, int count) {
  const size_t bytes = size_t{sizeof(T)} * static_cast<size_t>(count);
  const auto addresses = reinterpret_cast<size_t>(from) | reinterpret_cast<size_t>(to);
  if ((addresses | bytes) % 16 == 0) {
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < bytes / 16; i += kThreads)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  } else {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) to[i] = from[i];
  }
}

/// Calls body(at, index) for batches of the block's indices: `at` are their numbers in the whole
/// array, or -1 where there is none.
template <class Body>
__device__ inline void each_index(const LineParams& params, Body&& body) {
  const bool wide = params.index_dtype == DType::int64;
  const long long first = static_cast<long long>(blockIdx.x) * params.values;
#pragma unroll 1
  for (int begin = static_cast<int>(threadIdx.x); begin < params.values;
       begin += kIndicesPerThread * kThreads) {
    long long index[kIndicesPerThread], value[kIndicesPerThread];
#pragma unroll
    for (int k = 0; k < kIndicesPerThread; ++k) {
      const int i = begin + k * kThreads;
      value[k] = i < params.values ? first + i : -1;
      index[k] = 0;
      if (value[k] >= 0)
        index[k] = wide ? reinterpret_cast<const long long*>(params.index)[value[k]]
                        : reinterpret_cast<const int*>(params.index)[value[k]];
    }
    body(value, index);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_to_lines(const __grid_constant__ LineParams params) {
  extern __shared__ __align__(16) char line[];
  float* const sums = reinterpret_cast<float*>(line);
  const long long first = static_cast<long long>(blockIdx.x) * params.length;
  const T* const start = reinterpret_cast<const T*>(params.start);
#pragma unroll 4
  for (int i = threadIdx.x; i < params.length; i += kThreads)
    sums[i] = start ? load_value<float>(start[first + i]) : 0.f;
  __syncthreads();
  each_index(params, [&](const long long(&at)[kIndicesPerThread],
                         const long long(&index)[kIndicesPerThread]) {
    T value[kIndicesPerThread];
#pragma unroll
    for (int k = 0; k < kIndicesPerThread; ++k)
      if (at[k] >= 0) value[k] = reinterpret_cast<const T*>(params.plain)[at[k]];
#pragma unroll
    for (int k = 0; k < kIndicesPerThread; ++k) {
      if (at[k] < 0) continue;
      const long long position = checked_index(index[k], params.limits);
      if (position >= 0) atomicAdd(sums + position, load_value<float>(value[k]));
    }
  });
  __syncthreads();
  T* const data = reinterpret_cast<T*>(params.data);
#pragma unroll 4
  for (int i = threadIdx.x; i < params.length; i += kThreads)
    data[first + i] = store_value<T>(sums[i]);
}

/// T: of as many bytes as an element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    write_to_lines(const __grid_constant__ LineParams params) {
  extern __shared__ __align__(16) char line[];
  T* const elements = reinterpret_cast<T*>(line);
  const long long first = static_cast<long long>(blockIdx.x) * params.length;
  const T* const plain = reinterpret_cast<const T*>(params.plain);
  copy_line(reinterpret_cast<const T*>(params.start) + first, elements, params.length);
  __syncthreads();
  each_index(params, [&](const long long(&at)[kIndicesPerThread],
                         const long long(&index)[kIndicesPerThread]) {
    T value[kIndicesPerThread];
#pragma unroll
    for (int k = 0; k < kIndicesPerThread; ++k)
      if (at[k] >= 0) value[k] = plain[params.one_value ? 0 : at[k]];
#pragma unroll
    for (int k = 0; k < kIndicesPerThread; ++k) {
      if (at[k] < 0) continue;
      const long long position = checked_index(index[k], params.limits);
      if (position >= 0) elements[position] = value[k];
    }
  });
  __syncthreads();
  copy_line<T>(elements, reinterpret_cast<T*>(params.data) + first, params.length);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    read_from_lines(const __grid_constant__ LineParams params) {
  extern __shared__ __align__(16) char line[];
  T* const elements = reinterpret_cast<T*>(line);
  const long long first = static_cast<long long>(blockIdx.x) * params.length;
  copy_line(reinterpret_cast<const T*>(params.data) + first, elements, params.length);
  __syncthreads();
  each_index(params, [&](const long long(&at)[kIndicesPerThread],
                         const long long(&index)[kIndicesPerThread]) {
#pragma unroll
    for (int k = 0; k < kIndicesPerThread; ++k) {
      if (at[k] < 0) continue;
      const long long position = checked_index(index[k], params.limits);
      reinterpret_cast<T*>(params.plain)[at[k]] = position < 0 ? T{} : elements[position];
    }
  });
}

/// A line takes `bytes` of shared memory per element.
inline void launch_lines(const KernelContext& context, const LineParams& params, int64_t bytes,
                         void (*kernel)(LineParams)) {
  const Launch launch{context.op, context.device.index,
                      static_cast<unsigned>(params.length * bytes)};
  launch(kernel, dim3(params.lines), dim3(kThreads), params);
}

}  // namespace tensora::cuda
