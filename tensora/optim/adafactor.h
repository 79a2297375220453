#pragma once

#include <optional>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct AdafactorEps {
  std::optional<double> first = {};  // keeps denominators from 0; the dtype's own if not given
  double second = 1e-3;              // the least scale of a parameter
};
struct AdafactorOptions {
  double lr = 1e-2;  // the largest relative step, and the factor of the weight decay
  double beta2_decay = -0.8;
  AdafactorEps eps = {};
  double d = 1;  // the size above which updates are clipped
  double weight_decay = 0;
  bool maximize = false;
};

/// Adaptive steps with little memory: of a matrix, the mean squares of rows and columns are kept.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(Parameters params, const AdafactorOptions& options = {});

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
