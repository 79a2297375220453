#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  // whether there are weight and bias
  bool bias = true;
};

/// Each sample's groups of neighbouring channels (dim 1) minus their mean over their deviation,
/// times weight, plus bias.
class GroupNorm : public Layer<GroupNorm> {
 public:
  GroupNorm(int64_t num_groups, int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& input) const;
  void reset_parameters();
  std::string extra_repr() const override;

  int64_t num_groups, num_channels;
  GroupNormOptions options;
  Parameter weight, bias;  // num_channels
};

struct LocalResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};

/// Each element over (k + alpha * the mean square of `size` neighbouring channels)^beta.
class LocalResponseNorm : public Layer<LocalResponseNorm> {
 public:
  explicit LocalResponseNorm(int64_t size, LocalResponseNormOptions options = {})
      : size(size), options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  int64_t size;
  LocalResponseNormOptions options;
};

}  // namespace tensora::nn
