#pragma once

#include <optional>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;                 // of one step
  std::optional<int64_t> max_eval = {};  // of one step: 5/4 of max_iter
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  int64_t history_size = 100;
  std::string line_search_fn = {};  // or "strong_wolfe"
  bool maximize = false;
};

/// The quasi-Newton method L-BFGS, of one group of parameters. Only `step(closure)` works, and it
/// calls the closure several times. It reads losses and products from the device.
class LBFGS : public Optimizer {
 public:
  explicit LBFGS(Parameters params, const LBFGSOptions& options = {});

 protected:
  Tensor step_with(const Closure& closure) override;
  void update(ParamGroup& group) override;  // throws: a closure is needed
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
