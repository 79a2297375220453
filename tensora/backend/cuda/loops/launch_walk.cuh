#pragma once

// From the host's walk to the kernel's.

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/loops/host_walk.h"

namespace tensora::cuda {

static_assert(kMaxPartDims == kMaxWalkDims);

/// Counts dim 0 in groups; what does not fill the last group is left to the caller.
inline void group_inner(HostWalk& walk, int64_t group) {
  walk.sizes[0] /= group;
  for (int k = 0; k < walk.arrays; ++k) walk.strides[k][0] *= group;
}

template <int K>
void fill_walk(Walk<K>& to, const HostWalk& from) {
  to.dims = from.dims;
  for (int d = 0; d < from.dims; ++d) {
    if (from.sizes[d] > 0) {
      const DivisorNumbers numbers = divisor_numbers(from.sizes[d]);
      to.sizes[d] = {numbers.divisor, numbers.multiplier, numbers.shift};
    }
    for (int k = 0; k < K; ++k) to.strides[k][d] = static_cast<unsigned>(from.strides[k][d]);
  }
}

}  // namespace tensora::cuda
