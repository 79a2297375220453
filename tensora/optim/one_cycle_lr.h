#pragma once

#include "tensora/optim/lr_scheduler.h"

namespace tensora::optim {

struct OneCycleLROptions {
  PerGroup max_lr = 0;
  int64_t total_steps = 0;  // or:
  int64_t epochs = 0, steps_per_epoch = 0;
  double pct_start = 0.3;               // the part of the steps in which the rate rises
  std::string anneal_strategy = "cos";  // or "linear"
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.85;
  PerGroup max_momentum = 0.95;
  double div_factor = 25;         // max_lr over the first rate
  double final_div_factor = 1e4;  // the first rate over the last
  bool three_phase = false;
  int64_t last_epoch = -1;
};

/// Up to max_lr and down to nearly nothing, once; the momentum, if asked, the other way round.
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);
  Value state_dict() const override;
  void load_state_dict(const Value& state_dict) override;

 protected:
  std::vector<double> get_lr() override;
  void fields(StateFields& fields) override;

 private:
  struct Phase {
    double end_step;
    std::string start_lr, end_lr, start_momentum, end_momentum;  // options of the groups
  };
  static OneCycleLROptions checked(Optimizer& optimizer, OneCycleLROptions options);
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions&& options, bool is_checked);
  double anneal(double start, double end, double part) const;
  std::vector<Phase> made_phases() const;

  OneCycleLROptions o_;
  std::vector<Phase> phases_;
};

}  // namespace tensora::optim
