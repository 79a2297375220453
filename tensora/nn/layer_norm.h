#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  // whether there are weight and bias
  bool bias = true;
};

/// Rows, what the last dims of sizes `normalized_shape` hold together, minus their mean over their
/// deviation, times weight, plus bias.
class LayerNorm : public Layer<LayerNorm> {
 public:
  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});
  Tensor forward(const Tensor& input) const;
  void reset_parameters();
  std::string extra_repr() const override;

  Shape normalized_shape;
  LayerNormOptions options;
  Parameter weight, bias;  // normalized_shape
};

struct RMSNormOptions {
  std::optional<double> eps = {};  // the epsilon of the type that is computed in
  bool elementwise_affine = true;
};

/// Rows over the root of their mean square, times weight.
class RMSNorm : public Layer<RMSNorm> {
 public:
  explicit RMSNorm(const Shape& normalized_shape, RMSNormOptions options = {});
  Tensor forward(const Tensor& input) const;
  void reset_parameters();
  std::string extra_repr() const override;

  Shape normalized_shape;
  RMSNormOptions options;
  Parameter weight;  // normalized_shape
};

}  // namespace tensora::nn
