#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct LinearOptions {
  bool bias = true;
};

/// y = x Wᵀ + b over the last dim. Weight and bias start uniform in ±1/√in_features.
class Linear : public Layer<Linear> {
 public:
  Linear(int64_t in_features, int64_t out_features, LinearOptions options = {});

  Tensor forward(const Tensor& input /* … in */) const;
  void reset_parameters();
  std::string extra_repr() const override;

  int64_t in_features, out_features;
  Parameter weight;  // out in
  Parameter bias;    // out; undefined without one
};

}  // namespace tensora::nn
