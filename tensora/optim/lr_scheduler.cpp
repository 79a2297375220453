#include "tensora/optim/lr_scheduler.h"

#include "tensora/base/check.h"
#include "tensora/core/deferred.h"

namespace tensora::optim {
namespace {

class Saver final : public StateFields {
 public:
  void operator()(const char* name, double& value) override { dict[name] = value; }
  void operator()(const char* name, int64_t& value) override { dict[name] = value; }
  void operator()(const char* name, bool& value) override { dict[name] = value; }
  void operator()(const char* name, std::string& value) override { dict[name] = value; }
  void operator()(const char* name, std::vector<double>& value) override { save(name, value); }
  void operator()(const char* name, std::vector<int64_t>& value) override { save(name, value); }

  Value dict = Value::dict();

 private:
  template <class T>
  void save(const char* name, const std::vector<T>& values) {
    Value list = Value::list();
    for (T value : values) list.push_back(value);
    dict[name] = std::move(list);
  }
};

// Reads everything, and changes the members only if `assigns`.
class Loader final : public StateFields {
 public:
  Loader(const std::string& scheduler, const Value& dict, bool assigns)
      : scheduler_(scheduler), dict_(dict), assigns_(assigns) {}
  void operator()(const char* name, double& value) override {
    load(name, value, [](const Value& from) { return from.to_double(); });
  }
  void operator()(const char* name, int64_t& value) override {
    load(name, value, [](const Value& from) { return from.to_int(); });
  }
  void operator()(const char* name, bool& value) override {
    load(name, value, [](const Value& from) { return from.to_bool(); });
  }
  void operator()(const char* name, std::string& value) override {
    load(name, value, [](const Value& from) { return from.to_string(); });
  }
  void operator()(const char* name, std::vector<double>& value) override {
    load(name, value, [&](const Value& from) {
      std::vector<double> list;
      for (const Value& item : from.to_list()) list.push_back(item.to_double());
      check(list.size() == value.size(), scheduler_, ": load_state_dict: expected ", value.size(),
            " numbers as '", name, "', one for each parameter group, got ", list.size());
      return list;
    });
  }
  void operator()(const char* name, std::vector<int64_t>& value) override {
    load(name, value, [](const Value& from) {
      std::vector<int64_t> list;
      for (const Value& item : from.to_list()) list.push_back(item.to_int());
      return list;
    });
  }

 private:
  template <class T, class Read>
  void load(const char* name, T& value, const Read& read) {
    const Value* const from = dict_.find(std::string(name));
    check(from, scheduler_, ": load_state_dict: '", name, "' is missing");
    T loaded = read(*from);
    if (assigns_) value = std::move(loaded);
  }
  const std::string& scheduler_;
  const Value& dict_;
  bool assigns_;
};

}  // namespace

LRScheduler::LRScheduler(std::string name, Optimizer& optimizer, int64_t last_epoch)
    : last_epoch_(last_epoch), name_(std::move(name)), optimizer_(optimizer) {
  check(last_epoch >= -1, name_, ": last_epoch must be at least -1, got ", last_epoch);
  for (size_t i = 0; i < groups().size(); ++i) {
    ParamGroup& group = groups()[i];
    if (last_epoch == -1 && !group.contains("initial_lr")) group.set("initial_lr", group.lr());
    check(group.contains("initial_lr"), name_, ": parameter group ", i,
          " has no 'initial_lr', which is needed to go on after epoch ", last_epoch,
          "; load the optimizer's state first, or begin with last_epoch -1");
    base_lrs_.push_back(group.number("initial_lr"));
  }
  note_last_lrs();
}

void LRScheduler::initial_step() {
  step_count_ = 0;
  is_initial_ = true;
  step();
  is_initial_ = false;
}

void LRScheduler::step() {
  note_host_work("a learning-rate scheduler steps in the body; step it after the call");
  ++step_count_;
  ++last_epoch_;
  set_lrs(get_lr());
}

void LRScheduler::restart() {
  last_epoch_ = 0;
  set_lrs(closed_form_lr());
}

std::vector<double> LRScheduler::current_lrs() const {
  std::vector<double> lrs;
  for (const ParamGroup& group : groups()) lrs.push_back(group.lr());
  return lrs;
}

std::vector<double> LRScheduler::scaled_lrs(double factor) const {
  std::vector<double> lrs = current_lrs();
  for (double& lr : lrs) lr *= factor;
  return lrs;
}

void LRScheduler::set_lrs(const std::vector<double>& lrs) {
  check(lrs.size() == groups().size(), name_, ": the optimizer had ", lrs.size(),
        " parameter groups when the scheduler was made, and has ", groups().size(), " now");
  for (size_t i = 0; i < lrs.size(); ++i) groups()[i].set_lr(lrs[i]);
  last_lr_ = lrs;
}

Value LRScheduler::state_dict() const {
  Saver saver;
  auto& self = const_cast<LRScheduler&>(*this);  // saving only reads
  self.fields(saver);
  saver("base_lrs", self.base_lrs_);
  saver("last_epoch", self.last_epoch_);
  saver("_step_count", self.step_count_);
  saver.dict["_is_initial"] = false;
  saver.dict["_get_lr_called_within_step"] = false;
  saver("_last_lr", self.last_lr_);
  return std::move(saver.dict);
}

void LRScheduler::load_state_dict(const Value& state_dict) {
  check(state_dict.is_dict(), name_, ": load_state_dict: expected a dict, got ", state_dict.kind());
  for (const bool assigns : {false, true}) {
    Loader loader(name_, state_dict, assigns);
    fields(loader);
    loader("base_lrs", base_lrs_);
    loader("last_epoch", last_epoch_);
    loader("_step_count", step_count_);
    loader("_last_lr", last_lr_);
  }
}

std::vector<double> PerGroup::spread(const Optimizer& optimizer, const char* scheduler,
                                     const char* what) const {
  const size_t groups = optimizer.param_groups().size();
  if (values.size() == 1) return std::vector<double>(groups, values[0]);
  check(values.size() == groups, scheduler, ": expected one ", what, " or ", groups,
        ", one for each parameter group, got ", values.size());
  return values;
}

void set_momentum(ParamGroup& group, double momentum) {
  if (group.contains("betas"))
    group.set("betas", Value::List{momentum, group.number("betas", 1)});
  else
    group.set("momentum", momentum);
}

void check_has_momentum(const Optimizer& optimizer, const char* scheduler) {
  for (const ParamGroup& group : optimizer.param_groups())
    check(group.contains("betas") || group.contains("momentum"), scheduler,
          ": cycle_momentum needs an optimizer with momentum or betas, which ", optimizer.name(),
          " is not");
}

}  // namespace tensora::optim
