#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct BilinearOptions {
  bool bias = true;
};

/// y = x1ᵀ W x2 + b over the last dims. Weight and bias start uniform in ±1/√in1_features.
class Bilinear : public Layer<Bilinear> {
 public:
  Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
           BilinearOptions options = {});
  Tensor forward(const Tensor& input1 /* … in1 */, const Tensor& input2 /* … in2 */) const;
  void reset_parameters();
  std::string extra_repr() const override;

  int64_t in1_features, in2_features, out_features;
  Parameter weight;  // out in1 in2
  Parameter bias;    // out; undefined without one
};

}  // namespace tensora::nn
