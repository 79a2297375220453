#include "tensora/optim/reduce_lr_on_plateau.h"

#include <algorithm>
#include <limits>

#include "tensora/base/check.h"
#include "tensora/core/deferred.h"

namespace tensora::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : LRScheduler("ReduceLROnPlateau", optimizer),
      o_(std::move(options)),
      min_lrs_(o_.min_lr.spread(optimizer, "ReduceLROnPlateau", "min_lr")) {
  check(o_.factor < 1, "ReduceLROnPlateau: factor must be below 1, got ", o_.factor);
  check(o_.mode == "min" || o_.mode == "max", "ReduceLROnPlateau: mode must be min or max, got ",
        o_.mode);
  check(o_.threshold_mode == "rel" || o_.threshold_mode == "abs",
        "ReduceLROnPlateau: threshold_mode must be rel or abs, got ", o_.threshold_mode);
  last_epoch_ = 0;
  best_ = std::numeric_limits<double>::infinity() * (o_.mode == "min" ? 1 : -1);
}

bool ReduceLROnPlateau::is_better(double value) const {
  const double sign = o_.mode == "min" ? -1 : 1;
  const double limit =
      o_.threshold_mode == "rel" ? best_ * (1 + sign * o_.threshold) : best_ + sign * o_.threshold;
  return o_.mode == "min" ? value < limit : value > limit;
}

void ReduceLROnPlateau::step(double metrics) {
  note_host_work("a learning-rate scheduler steps in the body; step it after the call");
  ++last_epoch_;
  if (is_better(metrics)) {
    best_ = metrics;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ > o_.patience) {
    set_lrs(get_lr());
    cooldown_counter_ = o_.cooldown;
    num_bad_epochs_ = 0;
  }
  note_last_lrs();
}

void ReduceLROnPlateau::step() {
  check(false, "ReduceLROnPlateau: step needs the metric that is watched");
}

std::vector<double> ReduceLROnPlateau::get_lr() {
  std::vector<double> lrs = current_lrs();
  for (size_t i = 0; i < lrs.size() && i < min_lrs_.size(); ++i) {
    const double lower = std::max(lrs[i] * o_.factor, min_lrs_[i]);
    if (lrs[i] - lower > o_.eps) lrs[i] = lower;
  }
  return lrs;
}

void ReduceLROnPlateau::fields(StateFields& fields) {
  fields("factor", o_.factor);
  fields("min_lrs", min_lrs_);
  fields("patience", o_.patience);
  fields("cooldown", o_.cooldown);
  fields("eps", o_.eps);
  fields("mode", o_.mode);
  fields("threshold", o_.threshold);
  fields("threshold_mode", o_.threshold_mode);
  fields("best", best_);
  fields("cooldown_counter", cooldown_counter_);
  fields("num_bad_epochs", num_bad_epochs_);
}

}  // namespace tensora::optim
