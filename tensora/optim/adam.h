#pragma once

#include <array>
#include <concepts>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  bool capturable =
      false;  // the device counts the steps, so that a step can be recorded in a graph
  bool decoupled_weight_decay = false;  // as AdamW
  bool master_weights = false;          // float32 copies of 16-bit parameters are stepped
  bool narrow_states = false;  // the moments have the parameter's dtype, as PyTorch's; by default
                               // those of 16-bit parameters are float32
};

/// Adam, with the AMSGrad variant.
class Adam : public Optimizer {
 public:
  explicit Adam(Parameters params, const AdamOptions& options = {});
  /// With this learning rate, and otherwise the defaults.
  template <std::floating_point Number>
  Adam(Parameters params, Number lr) : Adam(std::move(params), AdamOptions{.lr = lr}) {}
  bool supports_grad_scaling() const override { return true; }

 protected:
  Adam(std::string name, Parameters params, const AdamOptions& options);
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
