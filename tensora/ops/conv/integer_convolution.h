#pragma once

// Internal header

#include "tensora/core/tensor.h"
#include "tensora/ops/conv/convolution.h"

namespace tensora {

/// The convolution of integer tensors, exact: a sum of integer products of matrices, one for each
/// place of the kernel. `bias` may be undefined.
Tensor integer_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvolutionAttrs& attrs);

}  // namespace tensora
