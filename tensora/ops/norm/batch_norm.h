#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// Each channel (dim 1) minus its mean, over its standard deviation, times weight, plus bias. In
/// training mean and variance are the input's own, and the running ones, if given, are moved
/// towards them in place: running = (1 - momentum) * running + momentum * new, with the unbiased
/// variance. Otherwise the running ones are used. The result has the input's memory layout.
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5);

/// The same with statistics of each sample's channels apart. The running ones are moved towards
/// their mean over the samples; with `use_input_stats` off they are used instead.
Tensor instance_norm(const Tensor& input, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, bool use_input_stats = true, double momentum = 0.1,
                     double eps = 1e-5);

}  // namespace tensora
