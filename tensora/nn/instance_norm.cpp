#include "tensora/nn/instance_norm.h"

#include "tensora/nn/norm_base_impl.h"
#include "tensora/ops/norm/batch_norm.h"

namespace tensora::nn {

template <int Dims>
InstanceNorm<Dims>::InstanceNorm(int64_t features, const InstanceNormOptions& given)
    : NormBase<InstanceNorm<Dims>>(concat("InstanceNorm", Dims, "d"), features,
                                   {.eps = given.eps,
                                    .momentum = given.momentum,
                                    .affine = given.affine,
                                    .track_running_stats = given.track_running_stats,
                                    .bias = given.bias}) {}

template <int Dims>
Tensor InstanceNorm<Dims>::forward(const Tensor& input) const {
  check(input.dim() == Dims + 1 || input.dim() == Dims + 2, name(), ": expected ", Dims + 1,
        "D or ", Dims + 2, "D input, got shape ", input.sizes());
  const int64_t channels = input.size(-Dims - 1);
  check(!this->options.affine || channels == this->num_features, name(), ": expected ",
        this->num_features, " channels, got shape ", input.sizes());
  const bool batched = input.dim() == Dims + 2;
  const Tensor result = instance_norm(batched ? input : input.unsqueeze(0), this->running_mean,
                                      this->running_var, this->weight, this->bias,
                                      this->is_training() || !this->options.track_running_stats,
                                      this->options.momentum.value_or(0), this->options.eps);
  return batched ? result : result.squeeze(0);
}

template <int Dims>
std::string InstanceNorm<Dims>::name() const {
  return concat("InstanceNorm", Dims, "d");
}

template class NormBase<InstanceNorm<1>>;
template class NormBase<InstanceNorm<2>>;
template class NormBase<InstanceNorm<3>>;
template class InstanceNorm<1>;
template class InstanceNorm<2>;
template class InstanceNorm<3>;

}  // namespace tensora::nn
