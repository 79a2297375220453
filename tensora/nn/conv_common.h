#pragma once

// Internal header: what convolutions and transposed convolutions share.

#include "tensora/nn/layer.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/conv/conv.h"
#include "tensora/ops/creation/empty.h"

namespace tensora::nn {

using ConvFunction = Tensor(const Tensor&, const Tensor&, const Tensor&, const Shape&,
                            const ConvPadding&, const Shape&, int64_t);

/// A number for each of `dims` dims, none of them below `least`.
Shape per_dim(const std::string& layer, std::string_view argument, const Shape& values, int dims,
              int64_t least);
void check_channels(const std::string& layer, int64_t in, int64_t out, int64_t groups);
/// Uniform in ±1/√fan_in.
void reset_conv_parameters(const Tensor& weight, const Tensor& bias);
/// The arguments from dilation on, where they are not the defaults.
std::string repr_conv_rest(const Shape& dilation, const Shape& output_padding, int64_t groups,
                           bool bias);

}  // namespace tensora::nn
