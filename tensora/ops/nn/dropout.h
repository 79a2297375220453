#pragma once

#include "tensora/dispatch/op_def.h"
#include "tensora/ops/nn/dropout_values.h"

// Elements that are set to zero at random while a network is trained. All of these return `input`
// itself when not `training`. Which elements they are depends on the generator's state and an
// element's number in row-major order alone: not on device, threads or layout.

namespace tensora {

extern OpDef<DropoutAttrs> dropout_op;
/// (self, condition): the second input decides.
extern OpDef<RandomSlopeAttrs> random_slope_op;

/// Each element is dropped with probability `p`; the others are divided by 1 - p.
Tensor dropout(const Tensor& input, double p = 0.5, bool training = true);
const Tensor& dropout_(const Tensor& input, double p = 0.5, bool training = true);
/// Drops to the negative saturation of selu, and keeps mean and variance.
Tensor alpha_dropout(const Tensor& input, double p = 0.5, bool training = false);
const Tensor& alpha_dropout_(const Tensor& input, double p = 0.5, bool training = false);

/// Whole channels: all elements of one index of dims 0 and 1. Inputs (N, C, …); dropout1d also
/// takes (C, L), and dropout3d (C, D, H, W).
Tensor dropout1d(const Tensor& input, double p = 0.5, bool training = true);
Tensor dropout2d(const Tensor& input, double p = 0.5, bool training = true);
Tensor dropout3d(const Tensor& input, double p = 0.5, bool training = true);
Tensor feature_alpha_dropout(const Tensor& input, double p = 0.5, bool training = false);

/// leaky_relu with a slope that is drawn for each element from [lower, upper), or with their mean
/// when not `training`.
Tensor rrelu(const Tensor& input, double lower = 1. / 8, double upper = 1. / 3,
             bool training = false);
const Tensor& rrelu_(const Tensor& input, double lower = 1. / 8, double upper = 1. / 3,
                     bool training = false);

}  // namespace tensora
