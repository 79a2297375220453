#include "tensora/nn/group_norm.h"

#include "tensora/nn/init.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/norm/distance.h"
#include "tensora/ops/norm/group_norm.h"

namespace tensora::nn {

GroupNorm::GroupNorm(int64_t groups, int64_t channels, GroupNormOptions given)
    : num_groups(groups), num_channels(channels), options(given) {
  check(groups > 0 && channels >= 0 && channels % groups == 0,
        "GroupNorm: num_channels must be divisible by num_groups, got ", channels, " and ", groups);
  const TensorOptions made = FactoryScope::current();
  const auto tensor = [&](bool wanted) { return wanted ? empty({channels}, made) : Tensor(); };
  weight = register_parameter("weight", tensor(given.affine));
  bias = register_parameter("bias", tensor(given.affine && given.bias));
  reset_parameters();
}

void GroupNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

Tensor GroupNorm::forward(const Tensor& input) const {
  return group_norm(input, num_groups, weight, bias, options.eps);
}

std::string GroupNorm::extra_repr() const {
  return concat(num_groups, ", ", num_channels, ", eps=", repr(options.eps),
                ", affine=", repr(options.affine), ", bias=", repr(bias.defined()));
}

Tensor LocalResponseNorm::forward(const Tensor& input) const {
  return local_response_norm(input, size, options.alpha, options.beta, options.k);
}

std::string LocalResponseNorm::extra_repr() const {
  return concat(size, ", alpha=", repr(options.alpha), ", beta=", repr(options.beta),
                ", k=", repr(options.k));
}

}  // namespace tensora::nn
