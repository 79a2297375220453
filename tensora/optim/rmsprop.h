#pragma once

#include <concepts>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  // the mean of the gradients is taken off
  bool maximize = false;
  bool capturable =
      false;  // the device counts the steps, so that a step can be recorded in a graph
  bool master_weights = false;  // float32 copies of 16-bit parameters are stepped
};

/// Divides gradients by the root of the running mean of their squares.
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(Parameters params, const RMSpropOptions& options = {});
  /// With this learning rate, and otherwise the defaults.
  template <std::floating_point Number>
  RMSprop(Parameters params, Number lr) : RMSprop(std::move(params), RMSpropOptions{.lr = lr}) {}
  bool supports_grad_scaling() const override { return true; }

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
