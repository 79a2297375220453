#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// Each row, what the last dims of sizes `normalized_shape` hold together, minus its mean, over
/// its standard deviation (the root of the biased variance plus eps), times weight, plus bias. Rows
/// of 16-bit floats are computed in float32; weight and bias may have another floating dtype.
Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// Each row over the root of its mean square plus eps, times weight. Without eps, the epsilon of
/// the type that is computed in.
Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

/// What a residual block does before its next layer, in one pass: the sum
///   dropout(input + input_bias, p) + residual
/// is normalised. Returns the result, in `dtype` if that is given, and the sum, in the wider dtype
/// of the two. Which elements are dropped follows from the current generator, and is found again,
/// not remembered, for the gradient.
std::tuple<Tensor, Tensor> add_layer_norm(const Tensor& input, const Tensor& residual,
                                          const Shape& normalized_shape, const Tensor& weight = {},
                                          const Tensor& bias = {}, double eps = 1e-5,
                                          const Tensor& input_bias = {}, double p = 0,
                                          bool training = true, std::optional<DType> dtype = {});
std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& input, const Tensor& residual,
                                        const Shape& normalized_shape, const Tensor& weight = {},
                                        std::optional<double> eps = {},
                                        const Tensor& input_bias = {}, double p = 0,
                                        bool training = true, std::optional<DType> dtype = {});

}  // namespace tensora
