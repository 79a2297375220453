#pragma once

#include "tensora/core/tensor.h"

// Windows of signal processing. A periodic one is what a symmetric one of one point more leaves
// without its last point.

namespace tensora {

/// (1 - cos) / 2
Tensor hann_window(int64_t window_length, bool periodic = true, const TensorOptions& options = {});
/// alpha - beta * cos
Tensor hamming_window(int64_t window_length, bool periodic = true, double alpha = 0.54,
                      double beta = 0.46, const TensorOptions& options = {});
/// 0.42 - 0.5 * cos + 0.08 * cos of twice the angle
Tensor blackman_window(int64_t window_length, bool periodic = true,
                       const TensorOptions& options = {});
/// A triangle.
Tensor bartlett_window(int64_t window_length, bool periodic = true,
                       const TensorOptions& options = {});

}  // namespace tensora
