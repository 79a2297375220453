#include "tensora/optim/schedulers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tensora/base/check.h"
#include "tensora/core/deferred.h"

namespace tensora::optim {
namespace {

constexpr double kPi = std::numbers::pi;

template <class Body>
std::vector<double> mapped(const std::vector<double>& rates, const Body& body) {
  std::vector<double> result;
  result.reserve(rates.size());
  for (double rate : rates) result.push_back(body(rate));
  return result;
}

double as_double(int64_t value) { return static_cast<double>(value); }

// Functions cannot be saved: as in PyTorch, None stands for each.
Value with_lambdas(Value dict, size_t count) {
  dict["lr_lambdas"] = Value::List(count);
  return dict;
}

}  // namespace

// ---- LambdaLR, MultiplicativeLR -----------------------------------------------------------------

LambdaLR::LambdaLR(Optimizer& optimizer, Lambda lr_lambda, int64_t last_epoch)
    : LambdaLR(optimizer,
               std::vector<Lambda>(optimizer.param_groups().size(), std::move(lr_lambda)),
               last_epoch) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Lambda> lr_lambdas, int64_t last_epoch)
    : LRScheduler("LambdaLR", optimizer, last_epoch), lr_lambdas_(std::move(lr_lambdas)) {
  check(lr_lambdas_.size() == groups().size(), "LambdaLR: expected ", groups().size(),
        " functions, one for each parameter group, got ", lr_lambdas_.size());
  for (const Lambda& lambda : lr_lambdas_) check(bool(lambda), "LambdaLR: a function is empty");
  initial_step();
}

std::vector<double> LambdaLR::get_lr() {
  std::vector<double> lrs;
  for (size_t i = 0; i < base_lrs().size(); ++i)
    lrs.push_back(base_lrs()[i] * lr_lambdas_[i](last_epoch()));
  return lrs;
}
Value LambdaLR::state_dict() const {
  return with_lambdas(LRScheduler::state_dict(), lr_lambdas_.size());
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, Lambda lr_lambda, int64_t last_epoch)
    : LRScheduler("MultiplicativeLR", optimizer, last_epoch), lr_lambda_(std::move(lr_lambda)) {
  check(bool(lr_lambda_), "MultiplicativeLR: the function is empty");
  initial_step();
}
std::vector<double> MultiplicativeLR::get_lr() {
  return is_initial() ? current_lrs() : scaled_lrs(lr_lambda_(last_epoch()));
}
Value MultiplicativeLR::state_dict() const {
  return with_lambdas(LRScheduler::state_dict(), base_lrs().size());
}

// ---- StepLR -------------------------------------------------------------------------------------

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : LRScheduler("StepLR", optimizer, options.last_epoch), o_(options) {
  check(o_.step_size > 0, "StepLR: step_size must be positive, got ", o_.step_size);
  initial_step();
}
std::vector<double> StepLR::get_lr() {
  if (last_epoch() == 0 || last_epoch() % o_.step_size != 0) return current_lrs();
  return scaled_lrs(o_.gamma);
}
std::vector<double> StepLR::closed_form_lr() {
  const double factor = std::pow(o_.gamma, as_double(last_epoch() / o_.step_size));
  return mapped(base_lrs(), [&](double lr) { return lr * factor; });
}
void StepLR::fields(StateFields& fields) {
  fields("step_size", o_.step_size);
  fields("gamma", o_.gamma);
}

// ---- MultiStepLR --------------------------------------------------------------------------------

MultiStepLR::MultiStepLR(Optimizer& optimizer, MultiStepLROptions options)
    : LRScheduler("MultiStepLR", optimizer, options.last_epoch), o_(std::move(options)) {
  std::sort(o_.milestones.begin(), o_.milestones.end());
  initial_step();
}
std::vector<double> MultiStepLR::get_lr() {
  const auto times = std::count(o_.milestones.begin(), o_.milestones.end(), last_epoch());
  return times == 0 ? current_lrs() : scaled_lrs(std::pow(o_.gamma, as_double(times)));
}
std::vector<double> MultiStepLR::closed_form_lr() {
  const auto passed = std::upper_bound(o_.milestones.begin(), o_.milestones.end(), last_epoch()) -
                      o_.milestones.begin();
  const double factor = std::pow(o_.gamma, as_double(passed));
  return mapped(base_lrs(), [&](double lr) { return lr * factor; });
}
void MultiStepLR::fields(StateFields& fields) { fields("gamma", o_.gamma); }

// PyTorch counts how often each milestone was given.
Value MultiStepLR::state_dict() const {
  Value counts = Value::dict();
  for (int64_t milestone : o_.milestones) {
    Value& count = counts[milestone];
    count = count.is_none() ? 1 : count.to_int() + 1;
  }
  Value result = LRScheduler::state_dict();
  result["milestones"] = std::move(counts);
  return result;
}
void MultiStepLR::load_state_dict(const Value& state_dict) {
  std::vector<int64_t> milestones;
  const Value* const counts =
      state_dict.is_dict() ? state_dict.find(std::string("milestones")) : nullptr;
  check(counts && counts->is_dict(),
        "MultiStepLR: load_state_dict: expected a dict with the dict 'milestones'");
  for (const auto& [milestone, count] : counts->to_dict()) {
    const auto* const epoch = std::get_if<int64_t>(&milestone);
    check(epoch && count.to_int() >= 0 && count.to_int() < 1000,
          "MultiStepLR: load_state_dict: a milestone must be a number with a count, got ",
          to_text(milestone));
    milestones.insert(milestones.end(), static_cast<size_t>(count.to_int()), *epoch);
  }
  LRScheduler::load_state_dict(state_dict);
  std::sort(milestones.begin(), milestones.end());
  o_.milestones = std::move(milestones);
}

// ---- ConstantLR, LinearLR -----------------------------------------------------------------------

ConstantLR::ConstantLR(Optimizer& optimizer, const ConstantLROptions& options)
    : LRScheduler("ConstantLR", optimizer, options.last_epoch), o_(options) {
  check(o_.factor >= 0 && o_.factor <= 1, "ConstantLR: factor must be between 0 and 1, got ",
        o_.factor);
  initial_step();
}
std::vector<double> ConstantLR::get_lr() {
  if (last_epoch() == 0) return scaled_lrs(o_.factor);
  if (last_epoch() != o_.total_iters) return current_lrs();
  return scaled_lrs(1.0 / o_.factor);
}
std::vector<double> ConstantLR::closed_form_lr() {
  const double over = last_epoch() >= o_.total_iters ? 1 : 0;
  return mapped(base_lrs(), [&](double lr) { return lr * (o_.factor + over * (1 - o_.factor)); });
}
void ConstantLR::fields(StateFields& fields) {
  fields("factor", o_.factor);
  fields("total_iters", o_.total_iters);
}

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options)
    : LRScheduler("LinearLR", optimizer, options.last_epoch), o_(options) {
  check(o_.start_factor > 0 && o_.start_factor <= 1,
        "LinearLR: start_factor must be above 0 and at most 1, got ", o_.start_factor);
  check(o_.end_factor >= 0 && o_.end_factor <= 1,
        "LinearLR: end_factor must be between 0 and 1, got ", o_.end_factor);
  check(o_.total_iters > 0, "LinearLR: total_iters must be positive, got ", o_.total_iters);
  initial_step();
}
std::vector<double> LinearLR::get_lr() {
  if (last_epoch() == 0) return scaled_lrs(o_.start_factor);
  if (is_initial() || last_epoch() > o_.total_iters) return current_lrs();
  const double change = o_.end_factor - o_.start_factor;
  return scaled_lrs(1.0 + change / (as_double(o_.total_iters) * o_.start_factor +
                                    as_double(last_epoch() - 1) * change));
}
std::vector<double> LinearLR::closed_form_lr() {
  const double part = as_double(std::min(o_.total_iters, last_epoch()));
  return mapped(base_lrs(), [&](double lr) {
    return lr *
           (o_.start_factor + (o_.end_factor - o_.start_factor) * part / as_double(o_.total_iters));
  });
}
void LinearLR::fields(StateFields& fields) {
  fields("start_factor", o_.start_factor);
  fields("end_factor", o_.end_factor);
  fields("total_iters", o_.total_iters);
}

// ---- ExponentialLR, PolynomialLR ----------------------------------------------------------------

ExponentialLR::ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options)
    : LRScheduler("ExponentialLR", optimizer, options.last_epoch), o_(options) {
  initial_step();
}
std::vector<double> ExponentialLR::get_lr() {
  return is_initial() ? current_lrs() : scaled_lrs(o_.gamma);
}
std::vector<double> ExponentialLR::closed_form_lr() {
  const double factor = std::pow(o_.gamma, as_double(last_epoch()));
  return mapped(base_lrs(), [&](double lr) { return lr * factor; });
}
void ExponentialLR::fields(StateFields& fields) { fields("gamma", o_.gamma); }

PolynomialLR::PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options)
    : LRScheduler("PolynomialLR", optimizer, options.last_epoch), o_(options) {
  check(o_.total_iters > 0, "PolynomialLR: total_iters must be positive, got ", o_.total_iters);
  initial_step();
}
std::vector<double> PolynomialLR::get_lr() {
  if (is_initial() || last_epoch() > o_.total_iters) return current_lrs();
  const double total = as_double(o_.total_iters);
  return scaled_lrs(std::pow(
      (1.0 - as_double(last_epoch()) / total) / (1.0 - as_double(last_epoch() - 1) / total),
      o_.power));
}
std::vector<double> PolynomialLR::closed_form_lr() {
  const double passed =
      as_double(std::min(o_.total_iters, last_epoch())) / as_double(o_.total_iters);
  return mapped(base_lrs(), [&](double lr) { return lr * std::pow(1.0 - passed, o_.power); });
}
void PolynomialLR::fields(StateFields& fields) {
  fields("total_iters", o_.total_iters);
  fields("power", o_.power);
}

// ---- CosineAnnealingLR --------------------------------------------------------------------------

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler("CosineAnnealingLR", optimizer, options.last_epoch), o_(options) {
  check(o_.T_max > 0, "CosineAnnealingLR: T_max must be positive, got ", o_.T_max);
  initial_step();
}
std::vector<double> CosineAnnealingLR::get_lr() {
  if (is_initial()) return current_lrs();
  if (step_count_ == 1 && last_epoch() > 0) return closed_form_lr();
  std::vector<double> lrs = current_lrs();
  const double period = as_double(o_.T_max);
  const int64_t turned = (last_epoch() - 1 - o_.T_max) % (2 * o_.T_max);
  for (size_t i = 0; i < lrs.size(); ++i) {
    if (turned == 0)  // the rate is eta_min, of which no multiple leads on
      lrs[i] += (base_lrs()[i] - o_.eta_min) * (1 - std::cos(kPi / period)) / 2;
    else
      lrs[i] = (1 + std::cos(kPi * as_double(last_epoch()) / period)) /
                   (1 + std::cos(kPi * as_double(last_epoch() - 1) / period)) *
                   (lrs[i] - o_.eta_min) +
               o_.eta_min;
  }
  return lrs;
}
std::vector<double> CosineAnnealingLR::closed_form_lr() {
  const double cosine = std::cos(kPi * as_double(last_epoch()) / as_double(o_.T_max));
  return mapped(base_lrs(),
                [&](double lr) { return o_.eta_min + (lr - o_.eta_min) * (1 + cosine) / 2; });
}
void CosineAnnealingLR::fields(StateFields& fields) {
  fields("T_max", o_.T_max);
  fields("eta_min", o_.eta_min);
}

// ---- CosineAnnealingWarmRestarts ----------------------------------------------------------------

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(
    Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler("CosineAnnealingWarmRestarts", optimizer, options.last_epoch),
      o_(options),
      T_i_(options.T_0),
      T_cur_(as_double(options.last_epoch)) {
  check(o_.T_0 > 0, "CosineAnnealingWarmRestarts: T_0 must be positive, got ", o_.T_0);
  check(o_.T_mult >= 1, "CosineAnnealingWarmRestarts: T_mult must be at least 1, got ", o_.T_mult);
  initial_step();
}
std::vector<double> CosineAnnealingWarmRestarts::get_lr() {
  const double cosine = std::cos(kPi * T_cur_ / as_double(T_i_));
  return mapped(base_lrs(),
                [&](double lr) { return o_.eta_min + (lr - o_.eta_min) * (1 + cosine) / 2; });
}
void CosineAnnealingWarmRestarts::step() {
  note_host_work("a learning-rate scheduler steps in the body; step it after the call");
  if (last_epoch_ < 0) return step(0.0);
  ++last_epoch_;
  T_cur_ += 1;
  if (T_cur_ >= as_double(T_i_)) {
    T_cur_ = std::fmod(T_cur_, as_double(T_i_));
    T_i_ *= o_.T_mult;
  }
  set_lrs(get_lr());
}
void CosineAnnealingWarmRestarts::step(double epoch) {
  note_host_work("a learning-rate scheduler steps in the body; step it after the call");
  check(epoch >= 0, "CosineAnnealingWarmRestarts: step: the epoch must not be negative, got ",
        epoch);
  const double first = as_double(o_.T_0), factor = as_double(o_.T_mult);
  T_i_ = o_.T_0;
  T_cur_ = epoch;
  if (epoch >= first && o_.T_mult == 1) {
    T_cur_ = std::fmod(epoch, first);
  } else if (epoch >= first) {
    const double restarts =
        std::trunc(std::log(epoch / first * (factor - 1) + 1) / std::log(factor));
    const double grown = std::pow(factor, restarts);
    T_cur_ = epoch - first * (grown - 1) / (factor - 1);
    T_i_ = o_.T_0 * static_cast<int64_t>(grown);
  }
  last_epoch_ = static_cast<int64_t>(std::floor(epoch));
  set_lrs(get_lr());
}
void CosineAnnealingWarmRestarts::fields(StateFields& fields) {
  fields("T_0", o_.T_0);
  fields("T_i", T_i_);
  fields("T_mult", o_.T_mult);
  fields("eta_min", o_.eta_min);
  fields("T_cur", T_cur_);
}

// ---- WarmupCosineLR -----------------------------------------------------------------------------

WarmupCosineLR::WarmupCosineLR(Optimizer& optimizer, const WarmupCosineLROptions& options)
    : LRScheduler("WarmupCosineLR", optimizer, options.last_epoch), o_(options) {
  check(o_.warmup_steps >= 0 && o_.total_steps > o_.warmup_steps,
        "WarmupCosineLR: expected 0 <= warmup_steps < total_steps, got ", o_.warmup_steps, " and ",
        o_.total_steps);
  initial_step();
}
std::vector<double> WarmupCosineLR::get_lr() {
  const int64_t step = last_epoch();
  if (step < o_.warmup_steps) {
    const double part = as_double(step + 1) / as_double(o_.warmup_steps + 1);
    return mapped(base_lrs(), [&](double lr) { return lr * part; });
  }
  const double part = std::min(
      1.0, as_double(step - o_.warmup_steps) / as_double(o_.total_steps - o_.warmup_steps));
  return mapped(base_lrs(), [&](double lr) {
    return o_.eta_min + (lr - o_.eta_min) * (1 + std::cos(kPi * part)) / 2;
  });
}
void WarmupCosineLR::fields(StateFields& fields) {
  fields("warmup_steps", o_.warmup_steps);
  fields("total_steps", o_.total_steps);
  fields("eta_min", o_.eta_min);
}

}  // namespace tensora::optim
