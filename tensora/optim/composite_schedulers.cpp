#include "tensora/optim/composite_schedulers.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/core/deferred.h"
#include "tensora/optim/reduce_lr_on_plateau.h"

namespace tensora::optim {
namespace {

using Schedulers = std::vector<std::reference_wrapper<LRScheduler>>;

Optimizer& common_optimizer(const char* name, const Schedulers& schedulers) {
  check(!schedulers.empty(), name, ": expected at least one scheduler");
  for (size_t i = 0; i < schedulers.size(); ++i) {
    const LRScheduler& scheduler = schedulers[i];
    check(&scheduler.optimizer() == &schedulers[0].get().optimizer(), name, ": scheduler ", i, ", ",
          scheduler.name(), ", belongs to another optimizer than the first");
    check(!dynamic_cast<const ReduceLROnPlateau*>(&scheduler), name, ": scheduler ", i,
          " is a ReduceLROnPlateau, whose step needs a metric");
  }
  return schedulers[0].get().optimizer();
}

Value states_of(const Schedulers& schedulers) {
  Value list = Value::list();
  for (const LRScheduler& scheduler : schedulers) list.push_back(scheduler.state_dict());
  return list;
}

void load_states(const char* name, const Schedulers& schedulers, const Value& state_dict) {
  const Value* const states =
      state_dict.is_dict() ? state_dict.find(std::string("_schedulers")) : nullptr;
  check(states && states->is_list() && states->size() == schedulers.size(), name,
        ": load_state_dict: expected a dict with the list '_schedulers' of ", schedulers.size());
  Schedulers loaded;
  std::vector<Value> before;
  try {
    for (size_t i = 0; i < schedulers.size(); ++i) {
      before.push_back(schedulers[i].get().state_dict());
      loaded.push_back(schedulers[i]);
      schedulers[i].get().load_state_dict(states->to_list()[i]);
    }
  } catch (...) {  // all or none
    for (size_t i = 0; i < loaded.size(); ++i) loaded[i].get().load_state_dict(before[i]);
    throw;
  }
}

std::vector<double> last_lr_in(const char* name, const Value& state_dict, size_t groups) {
  const Value* const saved =
      state_dict.is_dict() ? state_dict.find(std::string("_last_lr")) : nullptr;
  check(saved && saved->is_list() && saved->size() == groups, name,
        ": load_state_dict: expected a dict with the list '_last_lr' of ", groups, " numbers");
  std::vector<double> result;
  for (const Value& lr : saved->to_list()) result.push_back(lr.to_double());
  return result;
}

void reset_lrs(Optimizer& optimizer) {
  for (ParamGroup& group : optimizer.param_groups()) group.set_lr(group.number("initial_lr"));
}

}  // namespace

// ---- SequentialLR -------------------------------------------------------------------------------

SequentialLR::SequentialLR(Optimizer& optimizer, Schedulers schedulers, SequentialLROptions options)
    : LRScheduler("SequentialLR", common_optimizer("SequentialLR", schedulers)),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(options.milestones)) {
  check(&optimizer == &this->optimizer(),
        "SequentialLR: the schedulers belong to another optimizer than the one given");
  check(milestones_.size() + 1 == schedulers_.size(), "SequentialLR: expected ",
        schedulers_.size() - 1, " milestones for ", schedulers_.size(), " schedulers, got ",
        milestones_.size());
  check(std::is_sorted(milestones_.begin(), milestones_.end()),
        "SequentialLR: the milestones must not fall");
  begin();
}

// The schedulers acted on the rates when they were made, all of them. That is undone, and the first
// one begins.
void SequentialLR::begin() {
  reset_lrs(optimizer());
  for (LRScheduler& scheduler : schedulers_) scheduler.undo_initial_step();
  last_epoch_ = 0;
  bool takes_over = false;
  at(0, takes_over).initial_step();
  note_last_lrs();
}

LRScheduler& SequentialLR::at(int64_t epoch, bool& takes_over) const {
  const auto passed = static_cast<size_t>(
      std::upper_bound(milestones_.begin(), milestones_.end(), epoch) - milestones_.begin());
  takes_over = passed > 0 && milestones_[passed - 1] == epoch;
  return schedulers_[passed];
}

void SequentialLR::step() {
  note_host_work("a learning-rate scheduler steps in the body; step it after the call");
  ++last_epoch_;
  bool takes_over = false;
  LRScheduler& scheduler = at(last_epoch_, takes_over);
  if (takes_over)
    scheduler.restart();
  else
    scheduler.step();
  note_last_lrs();
}

void SequentialLR::restart() {
  reset_lrs(optimizer());
  last_epoch_ = 0;
  bool takes_over = false;
  at(0, takes_over).initial_step();
  note_last_lrs();
}

void SequentialLR::undo_initial_step() {
  for (LRScheduler& scheduler : schedulers_) scheduler.undo_initial_step();
}

Value SequentialLR::state_dict() const {
  Value milestones = Value::list();
  for (int64_t milestone : milestones_) milestones.push_back(milestone);
  return Value::Dict{{"_milestones", std::move(milestones)},
                     {"last_epoch", last_epoch_},
                     {"_last_lr", LRScheduler::state_dict().at("_last_lr")},
                     {"_schedulers", states_of(schedulers_)}};
}

void SequentialLR::load_state_dict(const Value& state_dict) {
  check(state_dict.is_dict() && state_dict.contains(std::string("last_epoch")) &&
            state_dict.contains(std::string("_milestones")),
        "SequentialLR: load_state_dict: expected a dict with 'last_epoch' and '_milestones'");
  const int64_t last_epoch = state_dict.at("last_epoch").to_int();
  std::vector<int64_t> milestones;
  for (const Value& milestone : state_dict.at("_milestones").to_list())
    milestones.push_back(milestone.to_int());
  check(milestones.size() == milestones_.size(), "SequentialLR: load_state_dict: expected ",
        milestones_.size(), " milestones, got ", milestones.size());
  std::vector<double> last_lr = last_lr_in("SequentialLR", state_dict, groups().size());
  load_states("SequentialLR", schedulers_, state_dict);
  last_epoch_ = last_epoch;
  milestones_ = std::move(milestones);
  last_lr_ = std::move(last_lr);
}

// ---- ChainedScheduler ---------------------------------------------------------------------------

ChainedScheduler::ChainedScheduler(Schedulers schedulers)
    : LRScheduler("ChainedScheduler", common_optimizer("ChainedScheduler", schedulers)),
      schedulers_(std::move(schedulers)) {}

void ChainedScheduler::step() {
  note_host_work("a learning-rate scheduler steps in the body; step it after the call");
  for (LRScheduler& scheduler : schedulers_) scheduler.step();
  note_last_lrs();
}

void ChainedScheduler::restart() {
  reset_lrs(optimizer());
  for (LRScheduler& scheduler : schedulers_) scheduler.initial_step();
  note_last_lrs();
}

void ChainedScheduler::undo_initial_step() {
  for (LRScheduler& scheduler : schedulers_) scheduler.undo_initial_step();
}

Value ChainedScheduler::state_dict() const {
  return Value::Dict{{"_last_lr", LRScheduler::state_dict().at("_last_lr")},
                     {"_schedulers", states_of(schedulers_)}};
}

void ChainedScheduler::load_state_dict(const Value& state_dict) {
  std::vector<double> last_lr = last_lr_in("ChainedScheduler", state_dict, groups().size());
  load_states("ChainedScheduler", schedulers_, state_dict);
  last_lr_ = std::move(last_lr);
}

}  // namespace tensora::optim
