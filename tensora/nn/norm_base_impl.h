#pragma once

// Internal header: the bodies of NormBase, for the sources that instantiate it.

#include "tensora/autograd/grad_mode.h"
#include "tensora/nn/norm_base.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/creation/empty.h"

namespace tensora::nn {

template <class Self>
NormBase<Self>::NormBase(std::string_view layer, int64_t features, const BatchNormOptions& given)
    : num_features(features), options(given) {
  check(features >= 0, layer, ": expected num_features of at least 0, got ", features);
  const TensorOptions made = FactoryScope::current();
  const auto tensor = [&](bool wanted) { return wanted ? empty({features}, made) : Tensor(); };
  weight = this->register_parameter("weight", tensor(given.affine));
  bias = this->register_parameter("bias", tensor(given.affine && given.bias));
  running_mean = this->register_buffer("running_mean", tensor(given.track_running_stats));
  running_var = this->register_buffer("running_var", tensor(given.track_running_stats));
  TensorOptions counter = made;
  counter.dtype = kInt64;
  num_batches_tracked = this->register_buffer(
      "num_batches_tracked", given.track_running_stats ? empty({}, counter) : Tensor());
  reset_parameters();
}

template <class Self>
void NormBase<Self>::reset_running_stats() {
  if (!running_mean.defined()) return;
  const no_grad scope;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

template <class Self>
void NormBase<Self>::reset_parameters() {
  reset_running_stats();
  const no_grad scope;
  if (weight.defined()) weight.fill_(1);
  if (bias.defined()) bias.zero_();
}

template <class Self>
std::string NormBase<Self>::extra_repr() const {
  return concat(num_features, ", eps=", repr(options.eps), ", momentum=", repr(options.momentum),
                ", affine=", repr(options.affine), ", bias=", repr(bias.defined()),
                ", track_running_stats=", repr(options.track_running_stats));
}

}  // namespace tensora::nn
