#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  /// How far the running statistics move towards each batch's; without a value they are the mean
  /// over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;               // whether there are weight and bias
  bool track_running_stats = true;  // without, batches are normalised by their own in eval too
  bool bias = true;
};

/// What BatchNorm and InstanceNorm consist of.
template <class Self>
class NormBase : public Layer<Self> {
 public:
  void reset_running_stats();
  void reset_parameters();
  std::string extra_repr() const override;

  int64_t num_features;
  BatchNormOptions options;
  Parameter weight, bias;                                 // num_features; undefined unless affine
  Buffer running_mean, running_var, num_batches_tracked;  // undefined unless tracked

 protected:
  NormBase(std::string_view layer, int64_t num_features, const BatchNormOptions& options);
};

}  // namespace tensora::nn
