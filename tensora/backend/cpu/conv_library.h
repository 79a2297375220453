#pragma once

#include <array>
#include <cstdint>

namespace tensora::cpu {

/// One spatial dim of a convolution, as in ops/conv/gather_plan.h.
struct LibraryAxis {
  int64_t large = 1, small = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
};

/// A convolution of dense float arrays: small from large, or large from small.
struct LibraryConvolution {
  bool transposed = false;     // large from small
  bool channels_last = false;  // source and result; else contiguous
  int spatial = 2;
  int64_t batch = 1, large_channels = 1, small_channels = 1, groups = 1;
  std::array<LibraryAxis, 3> axis = {};        // the first `spatial` count
  std::array<int64_t, 5> weight_strides = {};  // M, C/groups, kernel…
  const float *source = nullptr, *weight = nullptr;
  const float* bias = nullptr;  // contiguous; only if not transposed
  float* result = nullptr;
};

/// Computes it with oneDNN if that is installed, has a fast kernel for it, and it is worth it.
/// False, and nothing is done, otherwise. The work is divided by the shape alone.
bool convolve_by_library(const LibraryConvolution& args);

}  // namespace tensora::cpu
