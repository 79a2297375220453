#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

/// One factor for all dims, or one for each.
class ScaleFactor {
 public:
  template <class Number>
    requires std::is_arithmetic_v<Number>
  ScaleFactor(Number factor) : factors_{static_cast<double>(factor)} {}
  ScaleFactor(std::initializer_list<double> factors) : factors_(factors) {}
  ScaleFactor(std::vector<double> factors) : factors_(std::move(factors)) {}
  const std::vector<double>& factors() const { return factors_; }

 private:
  std::vector<double> factors_;
};

struct UpsampleOptions {
  std::optional<Shape> size = {};
  std::optional<ScaleFactor> scale_factor = {};
  std::string mode = "nearest";
  std::optional<bool> align_corners = {};
  std::optional<bool> recompute_scale_factor = {};
};

/// Resizes [N, C, L], [N, C, H, W] or [N, C, D, H, W] to `size`, or by `scale_factor`. Modes:
/// nearest, nearest-exact, linear, bilinear, trilinear, bicubic, area.
class Upsample : public Layer<Upsample> {
 public:
  explicit Upsample(UpsampleOptions options);
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  UpsampleOptions options;
};

}  // namespace tensora::nn
