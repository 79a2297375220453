#pragma once

#include <concepts>

#include "tensora/optim/adam.h"

namespace tensora::optim {

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
  bool capturable =
      false;  // the device counts the steps, so that a step can be recorded in a graph
  bool master_weights = false;  // float32 copies of 16-bit parameters are stepped
  bool narrow_states = false;   // the moments have the parameter's dtype: see AdamOptions
};

/// Adam whose weight decay acts on the parameters and not on the gradients.
class AdamW : public Adam {
 public:
  explicit AdamW(Parameters params, const AdamWOptions& options = {});
  /// With this learning rate, and otherwise the defaults.
  template <std::floating_point Number>
  AdamW(Parameters params, Number lr) : AdamW(std::move(params), AdamWOptions{.lr = lr}) {}

 protected:
  void update(ParamGroup& group) override;
};

}  // namespace tensora::optim
