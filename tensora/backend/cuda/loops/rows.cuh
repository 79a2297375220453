#pragma once

// Rows that fit on the chip. A group of threads, a warp or a block, reads a row once into its
// registers; the computation may then pass over the elements several times, for the maximum first
// and then for the exponentials, while memory is read only once.
//
// A computation is a functor over a compute type C:
//   using Value = C;
//   template <class Row> RowResults<C> operator()(const Row& row) const;
// which all threads of the group call together, each with its part of the row, and which returns
// what is stored for it. It learns about the whole row through Row::fold. LooksAtRow makes one of a
// reduction (Note [Two looks] in core/reduction.h).

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
  int length;
  unsigned lane;  // this thread's number in the group

  /// The position of this thread's item k in the row.
  __device__ int position(int k) const {
    return (k / kPack * static_cast<int>(kGroupThreads) + static_cast<int>(lane)) * kPack +
           k % kPack;
  }

  /// combine(…) of step(start, element) over all elements; every thread gets the same result. The
  /// order is fixed by the row's length.
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
      __syncthreads();  // an earlier fold may still be read
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
  /// The row's first element, to every thread.
  __device__ C first() const {
    C value = __shfl_sync(kWholeWarp, values[0], 0);
    if constexpr (kGroupThreads > kWarp) {
      __shared__ C shared;
      if (lane == 0) shared = value;
      __syncthreads();
      value = shared;
    }
    return value;
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

template <class C, int kItems, unsigned kGroupThreads>
__device__ inline void load_row(const RowsParams& params, const char* from,
                                Row<C, kItems, kGroupThreads>& row) {
  using R = Row<C, kItems, kGroupThreads>;
  constexpr int kPack = R::kPack;
  visit_any(params.in_dtype, [&]<class T>() {
#pragma unroll
    for (int k = 0; k < kItems; k += kPack) {
      const int first = row.position(k);
      C pack[kPack] = {};
      if (params.vector && first + kPack <= params.length) {
        load_pack<T>(from + first * static_cast<int>(sizeof(T)), pack);
      } else {
#pragma unroll
        for (int i = 0; i < kPack; ++i)
          if (first + i < params.length)
            pack[i] = load_value<C>(reinterpret_cast<const T*>(from)[first + i]);
      }
#pragma unroll
      for (int i = 0; i < kPack; ++i) row.values[k + i] = pack[i];
    }
  });
}

/// What is stored for a row in output 0 and, if there is one, in output 1.
template <class C>
struct RowResults {
  C first, second = {};
};

/// See Note [Taken again] in core/reduction.h. All threads have the same sums, and go the same way.
template <class F, class Row>
__device__ inline typename F::Acc again_if_needed(const F& functor, typename F::Acc acc,
                                                  const Row& row, double first, double count) {
  if constexpr (requires { functor.over_double(); }) {
    if (functor.fits(acc)) return acc;
    const auto wide = functor.over_double();
    const auto seen = row.fold(wide.first_look(first));
    const auto look = wide.second_look(first, seen, count);
    return wide.of_run(first, seen, look, row.fold(look), count);
  } else {
    return acc;
  }
}

/// A reduction that passes over a row twice.
template <class F>
struct LooksAtRow {
  using Value = typename F::Value;
  F functor;

  template <class Row>
  __device__ RowResults<Value> operator()(const Row& row) const {
    const Value first = row.first();
    const double count = row.length;
    const auto seen = row.fold(functor.first_look(first));
    const auto look = functor.second_look(first, seen, count);
    const auto acc = again_if_needed(
        functor, functor.of_run(first, seen, look, row.fold(look), count), row, first, count);
    RowResults<Value> results{static_cast<Value>(functor.finish(acc))};
    if constexpr (F::kOutputs == 2) results.second = static_cast<Value>(functor.second(acc));
    return results;
  }
};

template <class F, int kItems, unsigned kGroupThreads>
__global__ void __launch_bounds__(kRowThreads)
    rows_kernel(const __grid_constant__ RowsParams params, const F functor) {
  using C = typename F::Value;
  const unsigned number = blockIdx.x * (kRowThreads / kGroupThreads) + threadIdx.x / kGroupThreads;
  if (number >= params.rows) return;  // a whole group
  Row<C, kItems, kGroupThreads> row;
  row.length = params.length;
  row.lane = threadIdx.x % kGroupThreads;
  load_row(params, params.in + number * params.row_bytes, row);
  const RowResults<C> results = functor(row);
  if (row.lane != 0) return;
  const long long bytes = params.out_bytes;
  store_any<C>(params.out + number * bytes, params.out_dtype, results.first);
  if (params.second_out)
    store_any<C>(params.second_out + number * bytes, params.out_dtype, results.second);
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
