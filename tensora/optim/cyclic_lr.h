#pragma once

#include <optional>

#include "tensora/optim/lr_scheduler.h"

namespace tensora::optim {

struct CyclicLROptions {
  PerGroup base_lr = 0;
  PerGroup max_lr = 0;
  int64_t step_size_up = 2000;
  std::optional<int64_t> step_size_down = {};  // as many as up
  std::string mode = "triangular";             // or "triangular2", "exp_range"
  double gamma = 1;
  std::function<double(double)> scale_fn = {};  // instead of a mode
  std::string scale_mode = "cycle";  // what scale_fn gets: the number of the cycle, or "iterations"
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.8;
  PerGroup max_momentum = 0.9;
  int64_t last_epoch = -1;
};

/// Up and down between two rates, in a straight line or ever less high; the momentum, if asked, the
/// other way round.
class CyclicLR : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, CyclicLROptions options);
  Value state_dict() const override;

 protected:
  std::vector<double> get_lr() override;
  void fields(StateFields& fields) override;

 private:
  double scale(int64_t cycle) const;

  CyclicLROptions o_;
  double total_size_, step_ratio_;
  std::vector<double> max_lrs_, base_momentums_, max_momentums_;
};

}  // namespace tensora::optim
