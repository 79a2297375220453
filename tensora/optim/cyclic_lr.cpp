#include "tensora/optim/cyclic_lr.h"

#include <cmath>

#include "tensora/base/check.h"

namespace tensora::optim {
namespace {

// The schedule begins at these rates, so they must be in force before the base class notes them.
Optimizer& with_rates(Optimizer& optimizer, const CyclicLROptions& options) {
  const std::vector<double> rates = options.base_lr.spread(optimizer, "CyclicLR", "base_lr");
  for (size_t i = 0; options.last_epoch == -1 && i < rates.size(); ++i)
    optimizer.param_groups()[i].set_lr(rates[i]);
  return optimizer;
}

}  // namespace

CyclicLR::CyclicLR(Optimizer& optimizer, CyclicLROptions options)
    : LRScheduler("CyclicLR", with_rates(optimizer, options), options.last_epoch),
      o_(std::move(options)),
      max_lrs_(o_.max_lr.spread(optimizer, "CyclicLR", "max_lr")),
      base_momentums_(o_.base_momentum.spread(optimizer, "CyclicLR", "base_momentum")),
      max_momentums_(o_.max_momentum.spread(optimizer, "CyclicLR", "max_momentum")) {
  const int64_t down = o_.step_size_down.value_or(o_.step_size_up);
  check(o_.step_size_up > 0 && down > 0,
        "CyclicLR: step_size_up and step_size_down must be positive, got ", o_.step_size_up,
        " and ", down);
  check(
      o_.scale_fn || o_.mode == "triangular" || o_.mode == "triangular2" || o_.mode == "exp_range",
      "CyclicLR: mode must be triangular, triangular2 or exp_range, got ", o_.mode);
  check(o_.scale_mode == "cycle" || o_.scale_mode == "iterations",
        "CyclicLR: scale_mode must be cycle or iterations, got ", o_.scale_mode);
  if (!o_.scale_fn) o_.scale_mode = o_.mode == "exp_range" ? "iterations" : "cycle";
  total_size_ = static_cast<double>(o_.step_size_up + down);
  step_ratio_ = static_cast<double>(o_.step_size_up) / total_size_;
  if (o_.cycle_momentum) {
    check_has_momentum(optimizer, "CyclicLR");
    for (size_t i = 0; o_.last_epoch == -1 && i < groups().size(); ++i) {
      set_momentum(groups()[i], max_momentums_[i]);
      groups()[i].set("max_momentum", max_momentums_[i]);
      groups()[i].set("base_momentum", base_momentums_[i]);
    }
  }
  initial_step();
  // From here on the cycles start at base_lr, whatever a group's initial_lr is.
  base_lrs_ = o_.base_lr.spread(optimizer, "CyclicLR", "base_lr");
}

double CyclicLR::scale(int64_t cycle) const {
  const double x = static_cast<double>(o_.scale_mode == "cycle" ? cycle : last_epoch());
  if (o_.scale_fn) return o_.scale_fn(x);
  if (o_.mode == "triangular2") return 1 / std::pow(2.0, x - 1);
  return o_.mode == "exp_range" ? std::pow(o_.gamma, x) : 1;
}

std::vector<double> CyclicLR::get_lr() {
  const double passed = static_cast<double>(last_epoch()) / total_size_;
  const double cycle = std::floor(1 + passed);
  const double x = 1.0 + passed - cycle;
  const double height = x <= step_ratio_ ? x / step_ratio_ : (x - 1) / (step_ratio_ - 1);
  const double scaled = scale(static_cast<int64_t>(cycle));
  std::vector<double> lrs;
  for (size_t i = 0; i < base_lrs().size(); ++i) {
    lrs.push_back(base_lrs()[i] + (max_lrs_[i] - base_lrs()[i]) * height * scaled);
    if (o_.cycle_momentum && i < groups().size())
      set_momentum(groups()[i],
                   max_momentums_[i] - (max_momentums_[i] - base_momentums_[i]) * height * scaled);
  }
  return lrs;
}

void CyclicLR::fields(StateFields& fields) {
  fields("max_lrs", max_lrs_);
  fields("total_size", total_size_);
  fields("step_ratio", step_ratio_);
  fields("mode", o_.mode);
  fields("gamma", o_.gamma);
  fields("scale_mode", o_.scale_mode);
  fields("cycle_momentum", o_.cycle_momentum);
  if (!o_.cycle_momentum) return;
  fields("base_momentums", base_momentums_);
  fields("max_momentums", max_momentums_);
}

Value CyclicLR::state_dict() const {
  Value result = LRScheduler::state_dict();
  if (o_.cycle_momentum) result["use_beta1"] = groups()[0].contains("betas");
  result["_scale_fn_custom"] = {};
  return result;
}

}  // namespace tensora::optim
