#pragma once

#include "tensora/core/tensor.h"
#include "tensora/ops/optim/multi_tensor.h"

// PyTorch's torch.nn.utils.

namespace tensora::nn::utils {

using tensora::clip_grad_norm_;
using tensora::clip_grad_value_;

/// All elements of the parameters, one after the other, as a vector.
Tensor parameters_to_vector(const TensorList& parameters);
/// Writes the elements of a vector into the parameters.
void vector_to_parameters(const Tensor& vector, const TensorList& parameters);

}  // namespace tensora::nn::utils
