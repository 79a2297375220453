#pragma once

#include "tensora/nn/norm_base.h"

namespace tensora::nn {

struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
  bool bias = true;
};

/// BatchNorm with the statistics of each sample's channels apart. Inputs are [N, C, L…] or
/// [C, L…]. Use it as InstanceNorm1d, InstanceNorm2d or InstanceNorm3d.
template <int Dims>
class InstanceNorm : public NormBase<InstanceNorm<Dims>> {
 public:
  explicit InstanceNorm(int64_t num_features, const InstanceNormOptions& options = {});
  Tensor forward(const Tensor& input) const;
  std::string name() const override;
};

using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

extern template class NormBase<InstanceNorm<1>>;
extern template class NormBase<InstanceNorm<2>>;
extern template class NormBase<InstanceNorm<3>>;
extern template class InstanceNorm<1>;
extern template class InstanceNorm<2>;
extern template class InstanceNorm<3>;

}  // namespace tensora::nn
