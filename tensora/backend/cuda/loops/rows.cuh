#pragma once

// Rows that fit on the chip. A group of threads, a warp or a block, reads a row once into its
// registers; the computation may then pass over the elements twice, for the maximum first and then
// for the exponentials, while memory is read only once.
//
// A computation is a reduction that looks at its elements twice: Note [Two looks] in
// core/reduction.h.

#include <cstdint>
#include <optional>

#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/reduction.h"

namespace tensora::cuda {

inline constexpr unsigned kRowThreads = 256;  // per block
inline constexpr unsigned kWarp = 32;

/// A thread's part of a row that `kGroup` threads hold together: kItems elements at most, in packs
/// of kPack adjacent elements.
template <class C, int kItems, unsigned kGroupThreads>
struct Row {
  static constexpr int kPack = 16 / static_cast<int>(sizeof(C));
  static constexpr int kCapacity = kItems * static_cast<int>(kGroupThreads);
  C values[kItems];
  C first;  // element of the row
  int length;
  unsigned lane;  // this thread's number in the group

  /// The position of this thread's item k in the row.
  __device__ int position(int k) const {
    return (k / kPack * static_cast<int>(kGroupThreads) + static_cast<int>(lane)) * kPack +
           k % kPack;
  }

  /// combine(…) of step(start, element) over all elements; every thread gets the same result. The
  /// order is fixed by the row's length. Two calls in a row must not be of the same functor: each
  /// has memory of its own, whose readers have passed the other's barrier before it is written
  /// again.
  template <class A, class Step, class Combine>
  __device__ A fold(A start, Step step, Combine combine) const {
    constexpr int kChains = 4;  // steps that do not wait for one another
    A chains[kChains] = {start, start, start, start};
#pragma unroll
    for (int k = 0; k < kItems; ++k)
      if (position(k) < length) chains[k % kChains] = step(chains[k % kChains], values[k]);
    A acc = combine(combine(chains[0], chains[1]), combine(chains[2], chains[3]));
#pragma unroll
    for (unsigned distance = kWarp / 2; distance > 0; distance /= 2)
      acc = combine(acc, __shfl_xor_sync(kWholeWarp, acc, distance));
    if constexpr (kGroupThreads > kWarp) {
      __shared__ A warps[kGroupThreads / kWarp];
      if (lane % kWarp == 0) warps[lane / kWarp] = acc;
      __syncthreads();
      acc = warps[0];
#pragma unroll
      for (unsigned w = 1; w < kGroupThreads / kWarp; ++w) acc = combine(acc, warps[w]);
    }
    return acc;
  }
  /// The same by a functor of core/reduction.h.
  template <class F>
  __device__ typename F::Lane fold(const F& functor) const {
    using Lane = typename F::Lane;
    return fold(
        functor.lane(), [&](Lane lane, C x) { return functor.step(lane, x); },
        [&](Lane a, Lane b) { return functor.merge(a, b); });
  }
};

struct RowsParams {
  const char* in /* rows length */;
  char* out /* rows */;
  char* second_out;     // or null
  long long row_bytes;  // between rows of the input
  unsigned rows;
  int length;
  bool vector;  // rows begin where packs can be read
  DType in_dtype, out_dtype;
  int out_bytes;  // per element: a kernel cannot read the table of dtypes
};

/// See Note [Fetch first, convert later] in elements.cuh.
template <class C, int kItems, unsigned kGroupThreads>
__device__ inline void load_row(const RowsParams& params, const char* from,
                                Row<C, kItems, kGroupThreads>& row) {
  constexpr int kPack = Row<C, kItems, kGroupThreads>::kPack;
  visit_any(params.in_dtype, [&]<class T>() {
    const T* const elements = reinterpret_cast<const T*>(from);
    const T first = elements[0];
    if constexpr (sizeof(T) <= sizeof(C)) {
      if (params.vector) {
        RawGroup raw[kItems / kPack];
#pragma unroll
        for (int p = 0; p < kItems / kPack; ++p)
          if (row.position(p * kPack) < params.length)
            fetch<kPack* static_cast<int>(sizeof(T))>(
                reinterpret_cast<const char*>(elements + row.position(p * kPack)), raw[p]);
        row.first = load_value<C>(first);
#pragma unroll
        for (int k = 0; k < kItems; ++k)
          row.values[k] = load_value<C>(element_of<T>(raw[k / kPack], k % kPack));
        return;
      }
    }
    T loaded[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k)
      if (row.position(k) < params.length) loaded[k] = elements[row.position(k)];
    row.first = load_value<C>(first);
#pragma unroll
    for (int k = 0; k < kItems; ++k) row.values[k] = load_value<C>(loaded[k]);
  });
}

/// See Note [Taken again] in core/reduction.h: the row is read again, so that what is rarely needed
/// takes no registers from other rows.
template <class F, int kItems, unsigned kGroupThreads>
__device__ __noinline__ typename F::Acc over_double(const F& functor, const RowsParams& params,
                                                    const char* from, unsigned lane) {
  Row<typename F::Value, kItems, kGroupThreads> row;
  row.length = params.length;
  row.lane = lane;
  load_row(params, from, row);
  const auto wide = functor.over_double();
  const double first = row.first, count = row.length;
  const auto seen = row.fold(wide.first_look(first));
  const auto look = wide.second_look(first, seen, count);
  return wide.of_run(first, seen, look, row.fold(look), count);
}

/// Blocks that should fit on a multiprocessor together: as many loads as possible in flight.
template <class C, int kItems>
inline constexpr int kRowsBlocks = sizeof(C) * kItems <= 32    ? 6
                                   : sizeof(C) * kItems <= 64  ? 5
                                   : sizeof(C) * kItems <= 128 ? 3
                                                               : 2;

template <class F, int kItems, unsigned kGroupThreads>
__global__ void __launch_bounds__(kRowThreads, kRowsBlocks<typename F::Value, kItems>)
    rows_kernel(const __grid_constant__ RowsParams params, const F functor) {
  using C = typename F::Value;
  const unsigned number = blockIdx.x * (kRowThreads / kGroupThreads) + threadIdx.x / kGroupThreads;
  if (number >= params.rows) return;  // a whole group
  const char* const from = params.in + number * params.row_bytes;
  Row<C, kItems, kGroupThreads> row;
  row.length = params.length;
  row.lane = threadIdx.x % kGroupThreads;
  load_row(params, from, row);
  const double count = row.length;
  const auto seen = row.fold(functor.first_look(row.first));
  const auto look = functor.second_look(row.first, seen, count);
  const auto then = row.fold(look);
  typename F::Acc acc;
  bool again = false;
  if constexpr (requires { functor.over_double(); }) {
    again = !(then - then == 0);  // not finite; the same to all threads of the row
    if (again) acc = over_double<F, kItems, kGroupThreads>(functor, params, from, row.lane);
  }
  if (row.lane != 0) return;
  if (!again) acc = functor.of_run(row.first, seen, look, then, count);
  const long long at = static_cast<long long>(number) * params.out_bytes;
  store_any<C>(params.out + at, params.out_dtype, static_cast<C>(functor.finish(acc)));
  if constexpr (F::kOutputs == 2)
    if (params.second_out)
      store_any<C>(params.second_out + at, params.out_dtype, static_cast<C>(functor.second(acc)));
}

/// Input 0 as contiguous rows that are reduced, if it has that layout and the rows fit.
std::optional<RowsParams> rows_of(const KernelContext& context, uint32_t reduced);

inline constexpr int kLongestRow = 8192;

template <class F>
void run_rows(const KernelContext& context, const RowsParams& params, const F& functor) {
  const Launch launch{context.op, context.device.index};
  const auto run = [&](auto* kernel, unsigned group) {
    const unsigned per_block = kRowThreads / group;
    launch(kernel, dim3((params.rows + per_block - 1) / per_block), dim3(kRowThreads), params,
           functor);
  };
  if (params.length <= 8 * 32)
    run(rows_kernel<F, 8, kWarp>, kWarp);
  else if (params.length <= 32 * 32)
    run(rows_kernel<F, 32, kWarp>, kWarp);
  else if (params.length <= 8 * 256)
    run(rows_kernel<F, 8, kRowThreads>, kRowThreads);
  else if (params.length <= 16 * 256)
    run(rows_kernel<F, 16, kRowThreads>, kRowThreads);
  else
    run(rows_kernel<F, kLongestRow / 256, kRowThreads>, kRowThreads);
}

}  // namespace tensora::cuda
