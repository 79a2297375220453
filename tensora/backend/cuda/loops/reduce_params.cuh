#pragma once

// The parameters of a reduction's kernels.

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/core/dtype.h"
#include "tensora/core/shape.h"

namespace tensora::cuda {

/// A Walk with offsets of 64 bits.
template <int K>
struct WideWalk {
  int dims;
  Divisor sizes[kMaxDims];
  long long strides[K][kMaxDims];

  __device__ void offsets(unsigned index, long long (&at)[K]) const {
#pragma unroll
    for (int k = 0; k < K; ++k) at[k] = 0;
#pragma unroll 1
    for (int d = 0; d + 1 < dims; ++d) {
      const unsigned rest = sizes[d].divide(index);
      const unsigned position = index - rest * sizes[d].divisor;
#pragma unroll
      for (int k = 0; k < K; ++k) at[k] += position * strides[k][d];
      index = rest;
    }
#pragma unroll
    for (int k = 0; k < K; ++k) at[k] += index * strides[k][dims - 1];
  }
};

struct ReduceParams {
  const char* in;
  char* out[2];
  char* partial;          // accumulators: splits x outputs
  WideWalk<1> reduced;    // of the input, in steps: elements, or groups where rows are vectors
  WideWalk<3> kept;       // in, out 0, out 1; in groups where columns are vectors
  WideWalk<3> finish;     // the same in elements
  long long out_step[2];  // stride in bytes within a group of results
  unsigned outputs;       // results
  unsigned lanes;         // results, or groups of them where columns are vectors
  unsigned steps, tail, splits, steps_per_split;
  DType in_dtype, out_dtype[2];
};

}  // namespace tensora::cuda
