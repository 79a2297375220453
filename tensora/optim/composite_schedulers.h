#pragma once

#include "tensora/optim/lr_scheduler.h"

// Schedulers made of other schedulers, which must outlive them.

namespace tensora::optim {

struct SequentialLROptions {
  std::vector<int64_t> milestones;  // the epochs at which the next scheduler takes over
};

/// One scheduler after the other.
class SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::reference_wrapper<LRScheduler>> schedulers,
               SequentialLROptions options);
  void step() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state_dict) override;

 protected:
  std::vector<double> get_lr() override { return current_lrs(); }
  void restart() override;
  void undo_initial_step() override;

 private:
  void begin();
  LRScheduler& at(int64_t epoch, bool& takes_over) const;

  std::vector<std::reference_wrapper<LRScheduler>> schedulers_;
  std::vector<int64_t> milestones_;
};

/// Several schedulers at once: each changes what the one before it left.
class ChainedScheduler : public LRScheduler {
 public:
  explicit ChainedScheduler(std::vector<std::reference_wrapper<LRScheduler>> schedulers);
  void step() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state_dict) override;

 protected:
  std::vector<double> get_lr() override { return current_lrs(); }
  void restart() override;
  void undo_initial_step() override;

 private:
  std::vector<std::reference_wrapper<LRScheduler>> schedulers_;
};

}  // namespace tensora::optim
