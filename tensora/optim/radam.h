#pragma once

#include <array>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // as AdamW
  bool maximize = false;
  bool capturable =
      false;  // the device counts the steps, so that a step can be recorded in a graph
  bool master_weights = false;  // float32 copies of 16-bit parameters are stepped
};

/// Adam that waits until its second moment is reliable.
class RAdam : public Optimizer {
 public:
  explicit RAdam(Parameters params, const RAdamOptions& options = {});
  bool supports_grad_scaling() const override { return true; }

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
