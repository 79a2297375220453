#pragma once

#include <concepts>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  bool capturable =
      false;  // the device counts the steps, so that a step can be recorded in a graph
  bool master_weights = false;  // float32 copies of 16-bit parameters are stepped
};

/// Divides gradients by the root of the sum of their squares.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(Parameters params, const AdagradOptions& options = {});
  /// With this learning rate, and otherwise the defaults.
  template <std::floating_point Number>
  Adagrad(Parameters params, Number lr) : Adagrad(std::move(params), AdagradOptions{.lr = lr}) {}
  bool supports_grad_scaling() const override { return true; }

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
