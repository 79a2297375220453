#pragma once

#include "tensora/optim/lr_scheduler.h"

// The schedulers that are a formula of the epoch. `last_epoch` is the epoch after which a schedule
// goes on; -1 begins it.

namespace tensora::optim {

/// The base rate times a function of the epoch, one function for all groups or one for each.
class LambdaLR : public LRScheduler {
 public:
  using Lambda = std::function<double(int64_t epoch)>;
  LambdaLR(Optimizer& optimizer, Lambda lr_lambda, int64_t last_epoch = -1);
  LambdaLR(Optimizer& optimizer, std::vector<Lambda> lr_lambdas, int64_t last_epoch = -1);
  Value state_dict() const override;

 protected:
  std::vector<double> get_lr() override;

 private:
  std::vector<Lambda> lr_lambdas_;
};

/// The rate before times a function of the epoch.
class MultiplicativeLR : public LRScheduler {
 public:
  using Lambda = std::function<double(int64_t epoch)>;
  MultiplicativeLR(Optimizer& optimizer, Lambda lr_lambda, int64_t last_epoch = -1);
  Value state_dict() const override;

 protected:
  std::vector<double> get_lr() override;

 private:
  Lambda lr_lambda_;
};

struct StepLROptions {
  int64_t step_size = 0;
  double gamma = 0.1;
  int64_t last_epoch = -1;
};
/// Times gamma every step_size epochs.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);

 protected:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void fields(StateFields& fields) override;

 private:
  StepLROptions o_;
};

struct MultiStepLROptions {
  std::vector<int64_t> milestones;
  double gamma = 0.1;
  int64_t last_epoch = -1;
};
/// Times gamma at each milestone.
class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);
  Value state_dict() const override;
  void load_state_dict(const Value& state_dict) override;

 protected:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void fields(StateFields& fields) override;

 private:
  MultiStepLROptions o_;
};

struct ConstantLROptions {
  double factor = 1.0 / 3;
  int64_t total_iters = 5;
  int64_t last_epoch = -1;
};
/// Times factor until total_iters epochs have passed.
class ConstantLR : public LRScheduler {
 public:
  explicit ConstantLR(Optimizer& optimizer, const ConstantLROptions& options = {});

 protected:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void fields(StateFields& fields) override;

 private:
  ConstantLROptions o_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  int64_t total_iters = 5;
  int64_t last_epoch = -1;
};
/// Times a factor that goes linearly from start_factor to end_factor in total_iters epochs.
class LinearLR : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});

 protected:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void fields(StateFields& fields) override;

 private:
  LinearLROptions o_;
};

struct ExponentialLROptions {
  double gamma = 1;
  int64_t last_epoch = -1;
};
/// Times gamma every epoch.
class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options);

 protected:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void fields(StateFields& fields) override;

 private:
  ExponentialLROptions o_;
};

struct PolynomialLROptions {
  int64_t total_iters = 5;
  double power = 1;
  int64_t last_epoch = -1;
};
/// Down to 0 in total_iters epochs, as a power of the epochs that are left.
class PolynomialLR : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options = {});

 protected:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void fields(StateFields& fields) override;

 private:
  PolynomialLROptions o_;
};

struct CosineAnnealingLROptions {
  int64_t T_max = 0;
  double eta_min = 0;
  int64_t last_epoch = -1;
};
/// Half a cosine down to eta_min in T_max epochs, then up again, and so on.
class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);

 protected:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void fields(StateFields& fields) override;

 private:
  CosineAnnealingLROptions o_;
};

struct CosineAnnealingWarmRestartsOptions {
  int64_t T_0 = 0;
  int64_t T_mult = 1;
  double eta_min = 0;
  int64_t last_epoch = -1;
};
/// Half a cosine down to eta_min in T_0 epochs, then the same again from the top, each time T_mult
/// times as long.
class CosineAnnealingWarmRestarts : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer,
                              const CosineAnnealingWarmRestartsOptions& options);
  void step() override;
  /// The rate at an epoch, or in the course of one: `step(epoch + batch / batches)`.
  void step(double epoch);

 protected:
  std::vector<double> get_lr() override;
  void fields(StateFields& fields) override;

 private:
  CosineAnnealingWarmRestartsOptions o_;
  int64_t T_i_;
  double T_cur_;
};

struct WarmupCosineLROptions {
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double eta_min = 0;
  int64_t last_epoch = -1;
};
/// Linearly up to the base rate in warmup_steps steps, the first of which is not 0, then half a
/// cosine down to eta_min at total_steps, where it stays.
class WarmupCosineLR : public LRScheduler {
 public:
  WarmupCosineLR(Optimizer& optimizer, const WarmupCosineLROptions& options);

 protected:
  std::vector<double> get_lr() override;
  void fields(StateFields& fields) override;

 private:
  WarmupCosineLROptions o_;
};

}  // namespace tensora::optim
