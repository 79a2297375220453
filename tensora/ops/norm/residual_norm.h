#pragma once

#include <tuple>

#include "tensora/core/tensor.h"

namespace tensora {

struct ResidualNormOptions {
  Tensor residual = {};  // of the input's shape, added before the norm
  double eps = 1e-6;
  std::optional<DType> dtype = {};  // of the result; by default that of the input
  bool unit_offset = false;         // the factors are 1 + weight
};

/// The root-mean-square norm of a residual stream that is kept wider than the layers compute: each
/// row of s = input + residual over the root of its mean square plus eps, times weight [D], in the
/// dtype of the options. Input and residual: … D, of float32, float16 or bfloat16, each of its own.
/// Returns the result and s in float32; without a residual, s is the input as it is. No gradient.
std::tuple<Tensor, Tensor> residual_rms_norm(const Tensor& input, const Tensor& weight,
                                             const ResidualNormOptions& options = {});

}  // namespace tensora
