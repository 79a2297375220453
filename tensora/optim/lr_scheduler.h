#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

/// Saves or loads the members of a scheduler, each named once.
class StateFields {
 public:
  virtual ~StateFields() = default;
  virtual void operator()(const char* name, double& value) = 0;
  virtual void operator()(const char* name, int64_t& value) = 0;
  virtual void operator()(const char* name, bool& value) = 0;
  virtual void operator()(const char* name, std::string& value) = 0;
  virtual void operator()(const char* name, std::vector<double>& value) = 0;
  virtual void operator()(const char* name, std::vector<int64_t>& value) = 0;
};

/// Changes the learning rates of an optimizer from step to step. The optimizer must outlive it.
/// Call `step` after the optimizer's.
///
/// Like PyTorch's, most schedulers compute a rate from the one before, so that several can act on
/// one optimizer, and an lr that was changed by hand stays changed. A scheduler of your own writes
/// `get_lr`, and calls `initial_step` at the end of its constructor.
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  virtual void step();
  /// The learning rate of each group since the last step.
  const std::vector<double>& get_last_lr() const { return last_lr_; }
  int64_t last_epoch() const { return last_epoch_; }
  Optimizer& optimizer() const { return optimizer_; }
  const std::string& name() const { return name_; }

  /// All members by PyTorch's names; functions are not saved.
  virtual Value state_dict() const;
  /// Throws, and changes nothing, if something is missing or of another kind.
  virtual void load_state_dict(const Value& state_dict);

 protected:
  LRScheduler(std::string name, Optimizer& optimizer, int64_t last_epoch = -1);

  /// The learning rates of all groups at `last_epoch()`, where those before it are in force.
  virtual std::vector<double> get_lr() = 0;
  /// The same, computed from the base rates alone.
  virtual std::vector<double> closed_form_lr() { return get_lr(); }
  /// Names the members that are saved and loaded.
  virtual void fields(StateFields&) {}

  /// Puts the rates of the first epoch in force.
  void initial_step();
  /// Starts the schedule at epoch 0, from whatever rates are in force.
  virtual void restart();
  /// Takes back the epoch that a scheduler counted when it was made.
  virtual void undo_initial_step() { --last_epoch_; }

  bool is_initial() const { return is_initial_; }
  const std::vector<double>& base_lrs() const { return base_lrs_; }
  std::vector<ParamGroup>& groups() const { return optimizer_.param_groups(); }
  std::vector<double> current_lrs() const;
  /// The current rates, each times `factor`.
  std::vector<double> scaled_lrs(double factor) const;
  void set_lrs(const std::vector<double>& lrs);
  void note_last_lrs() { last_lr_ = current_lrs(); }

  int64_t last_epoch_ = -1;
  int64_t step_count_ = 0;
  std::vector<double> base_lrs_;

 private:
  friend class SequentialLR;
  friend class ChainedScheduler;

  std::string name_;
  Optimizer& optimizer_;
  std::vector<double> last_lr_;
  bool is_initial_ = false;
};

/// A number for each group, or one for all.
struct PerGroup {
  std::vector<double> values;
  PerGroup(double value) : values{value} {}                        // NOLINT: implicit
  PerGroup(std::initializer_list<double> list) : values(list) {}   // NOLINT: implicit
  PerGroup(std::vector<double> list) : values(std::move(list)) {}  // NOLINT: implicit
  /// Throws if there are neither one nor as many numbers as groups.
  std::vector<double> spread(const Optimizer& optimizer, const char* scheduler,
                             const char* what) const;
};

/// Writes the momentum of a group, or the first of its betas.
void set_momentum(ParamGroup& group, double momentum);
/// Throws if the optimizer has neither momentum nor betas.
void check_has_momentum(const Optimizer& optimizer, const char* scheduler);

}  // namespace tensora::optim
