#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "tensora/core/tensor.h"

// Starting values of parameters. Each function overwrites `tensor`, outside of any graph, and
// returns it.

namespace tensora::nn::init {

/// By how much a layer before this function must scale for its output to keep the variance.
/// `nonlinearity` is the function's name in nn::functional; `param` is leaky_relu's slope.
double calculate_gain(std::string_view nonlinearity, std::optional<double> param = {});
/// How many inputs each output of a weight [out, in, kernel…] has, and how many outputs each input.
std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(const Tensor& tensor);

const Tensor& uniform_(const Tensor& tensor, double a = 0, double b = 1);
const Tensor& normal_(const Tensor& tensor, double mean = 0, double std = 1);
/// Normal numbers, of which those outside [a, b] are drawn again.
const Tensor& trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double a = -2,
                            double b = 2);
const Tensor& constant_(const Tensor& tensor, double value);
const Tensor& ones_(const Tensor& tensor);
const Tensor& zeros_(const Tensor& tensor);
/// The identity matrix.
const Tensor& eye_(const Tensor& tensor);
/// A convolution weight that hands its input on, channel by channel, in each of `groups` groups.
const Tensor& dirac_(const Tensor& tensor, int64_t groups = 1);

/// A variance that is kept between input and output on average: 2 gain² / (fan_in + fan_out).
const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1);
const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1);

struct KaimingOptions {
  double a = 0;                                  // the slope of leaky_relu
  std::string_view mode = "fan_in";              // or "fan_out", to keep the gradients' variance
  std::string_view nonlinearity = "leaky_relu";  // the function that follows the layer
};
/// The variance gain² / fan that keeps that of the signal.
const Tensor& kaiming_uniform_(const Tensor& tensor, KaimingOptions options = {});
const Tensor& kaiming_normal_(const Tensor& tensor, KaimingOptions options = {});

/// Rows (or columns, if they are shorter) that are orthonormal, times gain.
const Tensor& orthogonal_(const Tensor& tensor, double gain = 1);
/// A matrix of normal numbers; in each column this share of them, in random rows, is zero.
const Tensor& sparse_(const Tensor& tensor, double sparsity, double std = 0.01);

}  // namespace tensora::nn::init
