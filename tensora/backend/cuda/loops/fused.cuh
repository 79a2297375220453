#pragma once

// The parameters of fused kernels, shared by the host and, as embedded text, by NVRTC.

#include "tensora/backend/cuda/loops/elements.cuh"

namespace tensora::cuda {

inline constexpr int kMaxFusedArrays = 12;  // outputs first, then inputs

struct FusedParams {
  Walk<kMaxFusedArrays> walk;
  char* data[kMaxFusedArrays];
  unsigned long long constants[kMaxFusedArrays];  // inputs from the host, as bits of their dtype
  unsigned count;                                 // groups, or elements
  unsigned tail;                                  // elements after the last whole group
};

}  // namespace tensora::cuda
