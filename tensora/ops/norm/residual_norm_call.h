#pragma once

// Internal header
// One call of residual_rms_norm as its CUDA kernel sees it.

#include <cstdint>
#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cuda {

struct ResidualNormCall {
  const void *x, *weight, *residual;  // residual: or null
  void *out, *sum;                    // sum: with a residual only, float32
  DType x_dtype, weight_dtype, residual_dtype, out_dtype;
  int64_t rows;
  int width;
  float eps, unit_offset;
};

/// Queues the kernel.
void norm_residual(std::string_view op, int device, const ResidualNormCall& call);

}  // namespace tensora::cuda
