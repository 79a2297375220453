#pragma once

#include "tensora/backend/cuda/loops/reduce.cuh"

namespace tensora::cuda {

/// A reduction to the number of elements that are not zero; NaN is not zero.
template <class C>
struct CountNonzero {
  using Value = C;
  using Acc = int64_t;
  static constexpr bool kIndexed = false;
  static constexpr int kOutputs = 1;
  __device__ Acc init() const { return 0; }
  __device__ Acc step(Acc acc, C x, unsigned) const { return acc + (x != C(0)); }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ int64_t first(Acc acc) const { return acc; }
};

}  // namespace tensora::cuda
