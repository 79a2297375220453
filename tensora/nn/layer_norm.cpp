#include "tensora/nn/layer_norm.h"

#include "tensora/nn/init.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/norm/layer_norm.h"

namespace tensora::nn {

LayerNorm::LayerNorm(const Shape& shape, LayerNormOptions given)
    : normalized_shape(shape), options(given) {
  const TensorOptions made = FactoryScope::current();
  const auto tensor = [&](bool wanted) { return wanted ? empty(shape, made) : Tensor(); };
  weight = register_parameter("weight", tensor(given.elementwise_affine));
  bias = register_parameter("bias", tensor(given.elementwise_affine && given.bias));
  reset_parameters();
}

void LayerNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

Tensor LayerNorm::forward(const Tensor& input) const {
  return layer_norm(input, normalized_shape, weight, bias, options.eps);
}

std::string LayerNorm::extra_repr() const {
  return concat(repr_tuple(normalized_shape), ", eps=", repr(options.eps),
                ", elementwise_affine=", repr(options.elementwise_affine),
                ", bias=", repr(bias.defined()));
}

RMSNorm::RMSNorm(const Shape& shape, RMSNormOptions given)
    : normalized_shape(shape), options(given) {
  weight = register_parameter(
      "weight", given.elementwise_affine ? empty(shape, FactoryScope::current()) : Tensor());
  reset_parameters();
}

void RMSNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
}

Tensor RMSNorm::forward(const Tensor& input) const {
  return rms_norm(input, normalized_shape, weight, options.eps);
}

std::string RMSNorm::extra_repr() const {
  return concat(repr_tuple(normalized_shape), ", eps=", repr(options.eps),
                ", elementwise_affine=", repr(options.elementwise_affine));
}

}  // namespace tensora::nn
