#pragma once

#include <concepts>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  bool capturable = false;      // a recorded graph reads the learning rate from the device
  bool master_weights = false;  // float32 copies of 16-bit parameters are stepped
};

/// Stochastic gradient descent, with momentum if asked.
class SGD : public Optimizer {
 public:
  explicit SGD(Parameters params, const SGDOptions& options = {});
  /// With this learning rate, and otherwise the defaults.
  template <std::floating_point Number>
  SGD(Parameters params, Number lr) : SGD(std::move(params), SGDOptions{.lr = lr}) {}
  bool supports_grad_scaling() const override { return true; }

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
