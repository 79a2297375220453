#pragma once

// torch::nn: modules, functional, init and utils.

#include "tensora/libtorch/nn/containers.h"
#include "tensora/libtorch/nn/functional.h"
#include "tensora/libtorch/nn/modules_activation.h"
#include "tensora/libtorch/nn/modules_adaptive.h"
#include "tensora/libtorch/nn/modules_conv.h"
#include "tensora/libtorch/nn/modules_layers.h"
#include "tensora/libtorch/nn/modules_loss.h"
#include "tensora/libtorch/nn/modules_padding.h"
#include "tensora/libtorch/nn/modules_pooling.h"
#include "tensora/libtorch/nn/modules_rnn.h"
#include "tensora/libtorch/nn/modules_transformer.h"
#include "tensora/nn/init.h"
#include "tensora/nn/utils.h"

namespace torch::nn {

namespace init {

using tensora::nn::init::constant_;
using tensora::nn::init::dirac_;
using tensora::nn::init::eye_;
using tensora::nn::init::normal_;
using tensora::nn::init::ones_;
using tensora::nn::init::orthogonal_;
using tensora::nn::init::sparse_;
using tensora::nn::init::uniform_;
using tensora::nn::init::xavier_normal_;
using tensora::nn::init::xavier_uniform_;
using tensora::nn::init::zeros_;

inline double calculate_gain(const Choice& nonlinearity, double param = 0.01) {
  return tensora::nn::init::calculate_gain(nonlinearity.text, param);
}
inline Tensor kaiming_normal_(const Tensor& tensor, double a = 0, const Choice& mode = kFanIn,
                              const Choice& nonlinearity = kLeakyReLU) {
  return tensora::nn::init::kaiming_normal_(
      tensor, {.a = a, .mode = mode.text, .nonlinearity = nonlinearity.text});
}
inline Tensor kaiming_uniform_(const Tensor& tensor, double a = 0, const Choice& mode = kFanIn,
                               const Choice& nonlinearity = kLeakyReLU) {
  return tensora::nn::init::kaiming_uniform_(
      tensor, {.a = a, .mode = mode.text, .nonlinearity = nonlinearity.text});
}
inline std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor) {
  return tensora::nn::init::calculate_fan_in_and_fan_out(tensor);
}

}  // namespace init

namespace utils {

using tensora::nn::utils::parameters_to_vector;
using tensora::nn::utils::vector_to_parameters;

/// Scales the gradients down to a norm of `max_norm` together; returns the norm that they had.
inline double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                              double norm_type = 2.0, bool error_if_nonfinite = false) {
  return tensora::clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)
      .item<double>();
}
inline double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type = 2.0,
                              bool error_if_nonfinite = false) {
  return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type, error_if_nonfinite);
}
inline void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  tensora::clip_grad_value_(parameters, clip_value);
}
inline void clip_grad_value_(const Tensor& parameter, double clip_value) {
  clip_grad_value_(std::vector<Tensor>{parameter}, clip_value);
}

}  // namespace utils
}  // namespace torch::nn
