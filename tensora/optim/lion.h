#pragma once

#include <array>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;
  bool maximize = false;
  bool capturable = false;      // a recorded graph reads the learning rate from the device
  bool master_weights = false;  // float32 copies of 16-bit parameters are stepped
};

/// Steps of equal size in the direction of the sign of a running mean; the weight decay acts on the
/// parameters.
class Lion : public Optimizer {
 public:
  explicit Lion(Parameters params, const LionOptions& options = {});
  bool supports_grad_scaling() const override { return true; }

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
