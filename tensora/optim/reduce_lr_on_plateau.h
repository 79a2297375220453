#pragma once

#include "tensora/optim/lr_scheduler.h"

namespace tensora::optim {

struct ReduceLROnPlateauOptions {
  std::string mode = "min";  // or "max": what is better
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";  // or "abs"
  int64_t cooldown = 0;
  PerGroup min_lr = 0;
  double eps = 1e-8;
};

/// Lowers the rates when a metric has not become better for more than `patience` steps.
class ReduceLROnPlateau : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});
  void step(double metrics);
  void step() override;  // throws: it needs the metric

  double best() const { return best_; }
  int64_t num_bad_epochs() const { return num_bad_epochs_; }

 protected:
  std::vector<double> get_lr() override;
  void fields(StateFields& fields) override;

 private:
  bool is_better(double value) const;

  ReduceLROnPlateauOptions o_;
  std::vector<double> min_lrs_;
  double best_;
  int64_t cooldown_counter_ = 0, num_bad_epochs_ = 0;
};

}  // namespace tensora::optim
