#include "tensora/optim/one_cycle_lr.h"

#include <cmath>
#include <numbers>

#include "tensora/base/check.h"

namespace tensora::optim {

// Everything that the groups must hold before the base class notes their initial rates.
OneCycleLROptions OneCycleLR::checked(Optimizer& optimizer, OneCycleLROptions o) {
  if (o.total_steps == 0) o.total_steps = o.epochs * o.steps_per_epoch;
  check(o.total_steps > 0,
        "OneCycleLR: total_steps, or epochs and steps_per_epoch, must be positive, got ",
        o.total_steps);
  check(o.pct_start >= 0 && o.pct_start <= 1, "OneCycleLR: pct_start must be between 0 and 1, got ",
        o.pct_start);
  check(o.anneal_strategy == "cos" || o.anneal_strategy == "linear",
        "OneCycleLR: anneal_strategy must be cos or linear, got ", o.anneal_strategy);
  const auto max_lrs = o.max_lr.spread(optimizer, "OneCycleLR", "max_lr");
  const auto low = o.base_momentum.spread(optimizer, "OneCycleLR", "base_momentum");
  const auto high = o.max_momentum.spread(optimizer, "OneCycleLR", "max_momentum");
  if (o.cycle_momentum) check_has_momentum(optimizer, "OneCycleLR");
  for (size_t i = 0; o.last_epoch == -1 && i < max_lrs.size(); ++i) {
    ParamGroup& group = optimizer.param_groups()[i];
    group.set("initial_lr", max_lrs[i] / o.div_factor);
    group.set("max_lr", max_lrs[i]);
    group.set("min_lr", max_lrs[i] / o.div_factor / o.final_div_factor);
    if (!o.cycle_momentum) continue;
    set_momentum(group, high[i]);
    group.set("max_momentum", high[i]);
    group.set("base_momentum", low[i]);
  }
  return o;
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : OneCycleLR(optimizer, checked(optimizer, std::move(options)), true) {}

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions&& options, bool)
    : LRScheduler("OneCycleLR", optimizer, options.last_epoch),
      o_(std::move(options)),
      phases_(made_phases()) {
  initial_step();
}

std::vector<OneCycleLR::Phase> OneCycleLR::made_phases() const {
  const auto total = static_cast<double>(o_.total_steps);
  const double up = o_.pct_start * total;
  if (o_.three_phase)
    return {{up - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"},
            {2 * o_.pct_start * total - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"},
            {total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"}};
  return {{up - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"},
          {total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"}};
}

double OneCycleLR::anneal(double start, double end, double part) const {
  if (o_.anneal_strategy == "linear") return (end - start) * part + start;
  return end + (start - end) / 2.0 * (std::cos(std::numbers::pi * part) + 1);
}

std::vector<double> OneCycleLR::get_lr() {
  check(last_epoch() <= o_.total_steps, "OneCycleLR: step ", last_epoch(),
        " is beyond total_steps, ", o_.total_steps);
  const auto step = static_cast<double>(last_epoch());
  size_t k = 0;
  while (k + 1 < phases_.size() && step > phases_[k].end_step) ++k;
  const Phase& phase = phases_[k];
  const double start = k == 0 ? 0 : phases_[k - 1].end_step;
  const double part = (step - start) / (phase.end_step - start);
  std::vector<double> lrs;
  for (ParamGroup& group : groups()) {
    lrs.push_back(anneal(group.number(phase.start_lr), group.number(phase.end_lr), part));
    if (o_.cycle_momentum)
      set_momentum(group, anneal(group.number(phase.start_momentum),
                                 group.number(phase.end_momentum), part));
  }
  return lrs;
}

void OneCycleLR::fields(StateFields& fields) {
  fields("total_steps", o_.total_steps);
  fields("_anneal_func_type", o_.anneal_strategy);
  fields("cycle_momentum", o_.cycle_momentum);
}

Value OneCycleLR::state_dict() const {
  Value result = LRScheduler::state_dict();
  Value list = Value::list();
  for (const Phase& phase : phases_)
    list.push_back(Value::Dict{{"end_step", phase.end_step},
                               {"start_lr", phase.start_lr},
                               {"end_lr", phase.end_lr},
                               {"start_momentum", phase.start_momentum},
                               {"end_momentum", phase.end_momentum}});
  result["_schedule_phases"] = std::move(list);
  if (o_.cycle_momentum) result["use_beta1"] = groups()[0].contains("betas");
  return result;
}

void OneCycleLR::load_state_dict(const Value& state_dict) {
  const Value* const saved =
      state_dict.is_dict() ? state_dict.find(std::string("_schedule_phases")) : nullptr;
  check(saved && saved->is_list() && saved->size() > 0,
        "OneCycleLR: load_state_dict: expected a dict with the list '_schedule_phases'");
  std::vector<Phase> phases;
  for (const Value& phase : saved->to_list())
    phases.push_back({phase.at("end_step").to_double(), phase.at("start_lr").to_string(),
                      phase.at("end_lr").to_string(), phase.at("start_momentum").to_string(),
                      phase.at("end_momentum").to_string()});
  LRScheduler::load_state_dict(state_dict);
  phases_ = std::move(phases);
}

}  // namespace tensora::optim
