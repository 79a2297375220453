#pragma once

// What the kernels of the row norms' gradients share: their parameters, a row's statistics and
// results, and the sums that a block leaves behind.

#include "tensora/ops/norm/row_norm_rows.cuh"

// Note [Sums over rows without atomics]
// The gradients of weight and bias are sums over all rows. A block takes row after row and keeps
// the sums of its threads' columns in registers, so that one pass over memory gives all three
// gradients. It leaves its sums in scratch memory, and a second kernel adds those of all blocks up
// in a fixed order. Which block takes which rows follows from the shape and the device alone.

namespace tensora::cuda {

struct GradientParams {
  RowsOf<5> rows;    // gradient of x, of the dropped input, of the result; x; gradient of the sum
  bool apart, adds;  // the input has a gradient of its own; that of the sum is added
  long long first_row;
  ParameterArray weight;
  const char *mean, *rstd;  // of the compute type; no mean: the root mean square
  Dropping dropping;
  char* partial;  // blocks x (weight, bias) x length, of the compute type; or null
};
enum : int { kOfX, kOfInput, kGrad, kX, kOfSum };

template <class C>
struct RowStatistics {
  C mean, rstd;
  __device__ C value(C x) const { return (x - mean) * rstd; }
};
template <class C>
__device__ inline RowStatistics<C> statistics_of(const GradientParams& params, unsigned row) {
  return {params.mean ? reinterpret_cast<const C*>(params.mean)[row] : C(0),
          reinterpret_cast<const C*>(params.rstd)[row]};
}

template <int kPack, class C>
__device__ inline void load_weight(const GradientParams& params, long long position,
                                   C (&weight)[kPack]) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) weight[i] = 1;
  if (params.weight.data) params.weight.load(position, weight);
}

// What a row's gradients have in common: rstd * (g w - constant - slope * value).
template <class C>
struct Common {
  C constant, slope;
  __device__ Common(const GradientParams& params, PairOf<C> sums)
      : constant(params.mean ? sums.first / static_cast<C>(params.rows.length) : C(0)),
        slope(sums.second / static_cast<C>(params.rows.length)) {}
  __device__ C of_x(const RowStatistics<C>& statistics, C grad, C value) const {
    return statistics.rstd * (grad - constant - slope * value);
  }
};

/// By what element `position` of row `row` was multiplied before the norm.
__device__ inline double dropped_factor(const GradientParams& params, unsigned row,
                                        long long position) {
  return params.dropping.factor_of((params.first_row + row) * params.rows.length + position);
}

/// The results of row `row`: `grad` becomes the gradient of x, and then, where that is another,
/// that of the input.
template <bool kFused, class Row>
__device__ inline void store_row_of(const GradientParams& params, unsigned row, unsigned lane,
                                    Row& grad) {
  const RowArray(&array)[5] = params.rows.array;
  const int length = static_cast<int>(params.rows.length);
  long long at[5];
  params.rows.rows.offsets(row, at);
  grad.store(array[kOfX].data + at[kOfX], array[kOfX], lane, length);
  if (!kFused || !params.apart) return;
  if (params.dropping.active)
    grad.each([&](int p, int i, typename Row::Value& value) {
      const int position = Row::position(p, lane) + i;
      if (position < length)
        value *= static_cast<typename Row::Value>(dropped_factor(params, row, position));
    });
  grad.store(array[kOfInput].data + at[kOfInput], array[kOfInput], lane, length);
}

// The sums of a block's groups, which hold the same columns, added up and left for the second
// kernel.
template <class Row, unsigned kGroups>
__device__ inline void leave_sums(const GradientParams& params, const Row& sum, int which,
                                  unsigned lane) {
  using C = typename Row::Value;
  const long long length = params.rows.length;
  C* const to = reinterpret_cast<C*>(params.partial) + (size_t{blockIdx.x} * 2 + which) * length;
  if constexpr (kGroups == 1) {
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p)
#pragma unroll
      for (int i = 0; i < Row::kPack; ++i)
        if (Row::position(p, lane) < length) to[Row::position(p, lane) + i] = sum.values[p][i];
  } else {
    __shared__ C shared[kGroups][Row::kCapacity];
    __syncthreads();  // the other sums may still be read
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p)
#pragma unroll
      for (int i = 0; i < Row::kPack; ++i)
        shared[threadIdx.x / Row::kGroup][Row::position(p, lane) + i] = sum.values[p][i];
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x); column < length;
         column += kGroups * Row::kGroup) {
      C total = 0;
#pragma unroll
      for (unsigned group = 0; group < kGroups; ++group) total += shared[group][column];
      to[column] = total;
    }
  }
}

}  // namespace tensora::cuda
