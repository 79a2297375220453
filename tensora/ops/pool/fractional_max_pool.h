#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// The largest elements of windows of pseudo-random places (Graham, 2014), and their positions in
/// the flattened pooled dims. The input is [N, C, H, W] or [N, C, D, H, W], or the same without the
/// batch; `random_samples`, [N, C, 2 or 3] in [0, 1), chooses the windows: one number per plane and
/// dim, in 2-D the width's first, as in PyTorch.
std::tuple<Tensor, Tensor> fractional_max_pool2d(const Tensor& input, const Shape& kernel_size,
                                                 const Shape& output_size,
                                                 const Tensor& random_samples);
std::tuple<Tensor, Tensor> fractional_max_pool3d(const Tensor& input, const Shape& kernel_size,
                                                 const Shape& output_size,
                                                 const Tensor& random_samples);

}  // namespace tensora
