#pragma once

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  bool capturable =
      false;  // the device counts the steps, so that a step can be recorded in a graph
  bool master_weights = false;  // float32 copies of 16-bit parameters are stepped
};

/// Steps whose size follows from those before; the learning rate is a factor.
class Adadelta : public Optimizer {
 public:
  explicit Adadelta(Parameters params, const AdadeltaOptions& options = {});
  bool supports_grad_scaling() const override { return true; }

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
