#include "tensora/optim/schedulers.h"

#include <cmath>
#include <memory>

#include "tensora/optim/adamw.h"
#include "tensora/optim/composite_schedulers.h"
#include "tensora/optim/cyclic_lr.h"
#include "tensora/optim/one_cycle_lr.h"
#include "tensora/optim/reduce_lr_on_plateau.h"
#include "tensora/optim/sgd.h"
#include "tests/optim/goldens.h"

namespace tensora::testing {
namespace {

using namespace optim;

constexpr int kSteps = 100;

std::vector<ParamGroup> two_groups() {
  return {{.params = {zeros({2}, {.requires_grad = true})}},
          {.params = {zeros({3}, {.requires_grad = true})}, .options = {{"lr", 0.01}}}};
}

// A scheduler and those that it is made of.
using Made = std::vector<std::unique_ptr<LRScheduler>>;
template <class Scheduler, class... Arguments>
Made made(Arguments&&... arguments) {
  Made result;
  result.push_back(std::make_unique<Scheduler>(std::forward<Arguments>(arguments)...));
  return result;
}
template <class First, class Second>
Made in_sequence(Optimizer& o, First first, Second second, int64_t milestone) {
  Made all;
  all.push_back(first(o));
  all.push_back(second(o));
  all.push_back(std::make_unique<SequentialLR>(
      o, std::vector<std::reference_wrapper<LRScheduler>>{*all[0], *all[1]},
      SequentialLROptions{{milestone}}));
  return all;
}
Made chained(Optimizer& o) {
  Made all;
  all.push_back(
      std::make_unique<ConstantLR>(o, ConstantLROptions{.factor = 0.1, .total_iters = 20}));
  all.push_back(std::make_unique<ExponentialLR>(o, ExponentialLROptions{.gamma = 0.95}));
  all.push_back(std::make_unique<StepLR>(o, StepLROptions{.step_size = 30}));
  all.push_back(std::make_unique<ChainedScheduler>(
      std::vector<std::reference_wrapper<LRScheduler>>{*all[0], *all[1], *all[2]}));
  return all;
}

struct Case {
  const char* name;
  std::function<Made(Optimizer&)> make;
  bool cycles = false;
};

template <class Scheduler, class Options>
std::function<Made(Optimizer&)> maker(Options options) {
  return [options](Optimizer& o) { return made<Scheduler>(o, options); };
}
template <class Scheduler, class Options>
auto part(Options options) {
  return [options](Optimizer& o) { return std::make_unique<Scheduler>(o, options); };
}

std::vector<Case> formula_cases() {
  return {
      {"lambda",
       [](Optimizer& o) {
         return made<LambdaLR>(
             o, std::vector<LambdaLR::Lambda>{[](int64_t e) { return std::pow(0.95, e); },
                                              [](int64_t e) { return 1.0 / double(e + 1); }});
       }},
      {"multiplicative",
       [](Optimizer& o) {
         return made<MultiplicativeLR>(o, [](int64_t e) { return e % 3 != 0 ? 0.9 : 1.1; });
       }},
      {"step", maker<StepLR>(StepLROptions{.step_size = 7, .gamma = 0.5})},
      {"multistep",
       maker<MultiStepLR>(MultiStepLROptions{.milestones = {30, 10, 30, 80}, .gamma = 0.3})},
      {"constant", maker<ConstantLR>(ConstantLROptions{.factor = 0.25, .total_iters = 12})},
      {"linear",
       maker<LinearLR>(LinearLROptions{.start_factor = 0.1, .end_factor = 0.8, .total_iters = 40})},
      {"exponential", maker<ExponentialLR>(ExponentialLROptions{.gamma = 0.93})},
      {"polynomial", maker<PolynomialLR>(PolynomialLROptions{.total_iters = 60, .power = 1.7})},
      {"cosine", maker<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 30, .eta_min = 0.001})},
      {"restarts", maker<CosineAnnealingWarmRestarts>(
                       CosineAnnealingWarmRestartsOptions{.T_0 = 15, .eta_min = 0.002})},
      {"restarts_longer", maker<CosineAnnealingWarmRestarts>(
                              CosineAnnealingWarmRestartsOptions{.T_0 = 7, .T_mult = 2})},
      {"warmup_cosine", maker<WarmupCosineLR>(WarmupCosineLROptions{
                            .warmup_steps = 10, .total_steps = 80, .eta_min = 0.003})},
      {"sequential",
       [](Optimizer& o) {
         return in_sequence(
             o, part<LinearLR>(LinearLROptions{.start_factor = 0.2, .total_iters = 20}),
             part<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 80, .eta_min = 0.004}), 20);
       }},
      {"sequential_restarts",
       [](Optimizer& o) {
         return in_sequence(
             o, part<ConstantLR>(ConstantLROptions{.factor = 0.1, .total_iters = 9}),
             part<CosineAnnealingWarmRestarts>(CosineAnnealingWarmRestartsOptions{.T_0 = 20}), 10);
       }},
      {"sequential_step",
       [](Optimizer& o) {
         return in_sequence(o, part<ExponentialLR>(ExponentialLROptions{.gamma = 0.9}),
                            part<StepLR>(StepLROptions{.step_size = 10, .gamma = 0.5}), 25);
       }},
      {"chained", chained},
  };
}

std::vector<Case> cycling_cases() {
  return {
      {"cyclic",
       maker<CyclicLR>(CyclicLROptions{
           .base_lr = 0.01, .max_lr = 0.2, .step_size_up = 12, .step_size_down = 5}),
       true},
      {"cyclic_triangular2",
       maker<CyclicLR>(CyclicLROptions{.base_lr = {0.01, 0.02},
                                       .max_lr = {0.2, 0.1},
                                       .step_size_up = 8,
                                       .mode = "triangular2"}),
       true},
      {"cyclic_exp",
       maker<CyclicLR>(CyclicLROptions{.base_lr = 0.01,
                                       .max_lr = 0.2,
                                       .step_size_up = 10,
                                       .mode = "exp_range",
                                       .gamma = 0.97,
                                       .base_momentum = 0.7,
                                       .max_momentum = 0.95}),
       true},
      {"cyclic_function",
       maker<CyclicLR>(CyclicLROptions{.base_lr = 0.01,
                                       .max_lr = 0.2,
                                       .step_size_up = 10,
                                       .scale_fn = [](double x) { return 1 / (1 + x); },
                                       .scale_mode = "iterations"}),
       true},
      {"one_cycle", maker<OneCycleLR>(OneCycleLROptions{.max_lr = 0.3, .total_steps = 100}), true},
      {"one_cycle_linear",
       maker<OneCycleLR>(OneCycleLROptions{.max_lr = {0.3, 0.2},
                                           .epochs = 20,
                                           .steps_per_epoch = 5,
                                           .pct_start = 0.4,
                                           .anneal_strategy = "linear",
                                           .base_momentum = 0.8,
                                           .div_factor = 10,
                                           .final_div_factor = 100}),
       true},
      {"one_cycle_three",
       maker<OneCycleLR>(OneCycleLROptions{.max_lr = 0.3, .total_steps = 100, .three_phase = true}),
       true},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all = formula_cases();
  for (const Case& c : cycling_cases()) all.push_back(c);
  return all;
}

std::unique_ptr<Optimizer> optimizer_for(bool betas) {
  if (betas) return std::make_unique<AdamW>(two_groups(), AdamWOptions{.lr = 0.1});
  return std::make_unique<SGD>(two_groups(), SGDOptions{.lr = 0.1, .momentum = 0.9});
}
double momentum_of(const Optimizer& optimizer) {
  const ParamGroup& group = optimizer.param_groups()[0];
  return group.contains("betas") ? group.number("betas", 0) : group.number("momentum");
}

// Runs a case, leaving the scheduler at step `reload`, if it is not 0, for a new one that loads its
// state.
Values trajectory(const Case& c, bool betas, int reload = 0) {
  auto optimizer = optimizer_for(betas);
  Made schedulers = c.make(*optimizer);
  Values rates{schedulers.back()->get_last_lr()[0]}, momenta{momentum_of(*optimizer)};
  for (int i = 1; i < kSteps; ++i) {
    if (i == reload) {
      const Value saved = schedulers.back()->state_dict(), options = optimizer->state_dict();
      schedulers.clear();
      optimizer = optimizer_for(betas);
      schedulers = c.make(*optimizer);
      schedulers.back()->load_state_dict(saved);
      optimizer->load_state_dict(options);
    }
    optimizer->step();
    schedulers.back()->step();
    rates.push_back(schedulers.back()->get_last_lr()[0]);
    momenta.push_back(momentum_of(*optimizer));
  }
  rates.push_back(optimizer->param_groups()[1].lr());
  if (c.cycles) rates.insert(rates.end(), momenta.begin(), momenta.end());
  return rates;
}

TEST(Schedulers, FollowPyTorch) {
  const auto goldens = read_goldens("schedulers.txt");
  for (const Case& c : all_cases()) {
    for (bool betas : {false, true}) {
      if (betas && !c.cycles) continue;
      const std::string name = c.name + std::string(betas ? "_betas" : "");
      ASSERT_TRUE(goldens.count(name)) << name;
      expect_close(trajectory(c, betas), goldens.at(name), 1e-11, name);
    }
  }
}

TEST(Schedulers, GoOnFromASavedState) {
  for (const Case& c : all_cases())
    for (int reload : {1, 23, 60})
      EXPECT_EQ(trajectory(c, true, reload), trajectory(c, true)) << c.name << " at " << reload;
}

TEST(Schedulers, LowerRatesOnAPlateau) {
  const auto goldens = read_goldens("schedulers.txt");
  const std::pair<const char*, ReduceLROnPlateauOptions> cases[] = {
      {"plateau", {.factor = 0.5, .patience = 3, .cooldown = 2, .min_lr = 0.001}},
      {"plateau_max",
       {.mode = "max",
        .factor = 0.7,
        .patience = 2,
        .threshold = 0.01,
        .threshold_mode = "abs",
        .min_lr = {0.02, 0.0}}}};
  for (const auto& [name, options] : cases) {
    SGD optimizer(two_groups(), {.lr = 0.1});
    ReduceLROnPlateau scheduler(optimizer, options);
    Values rates;
    for (int step = 0; step < kSteps; ++step) {
      if (step == 40) {
        const Value saved = scheduler.state_dict();
        ReduceLROnPlateau other(optimizer, {.patience = 99});
        other.load_state_dict(saved);
        EXPECT_EQ(other.best(), scheduler.best());
        EXPECT_EQ(other.num_bad_epochs(), scheduler.num_bad_epochs());
      }
      scheduler.step(std::exp(-0.1 * step) + 0.1 * std::sin(step));
      rates.push_back(optimizer.param_groups()[0].lr());
    }
    rates.push_back(optimizer.param_groups()[1].lr());
    expect_close(rates, goldens.at(name), 1e-11, name);
    EXPECT_TRUE(contains(error_of([&] { static_cast<LRScheduler&>(scheduler).step(); }), "metric"));
  }
}

TEST(Schedulers, WarmRestartsWithinAnEpoch) {
  SGD a(two_groups(), {.lr = 0.1}), b(two_groups(), {.lr = 0.1});
  CosineAnnealingWarmRestarts by_step(a, {.T_0 = 3, .T_mult = 2}), at(b, {.T_0 = 3, .T_mult = 2});
  for (int epoch = 1; epoch < 30; ++epoch) {
    by_step.step();
    at.step(epoch - 0.5);
    at.step(double(epoch));
    EXPECT_NEAR(by_step.get_last_lr()[0], at.get_last_lr()[0], 1e-12) << epoch;
  }
}

TEST(Schedulers, WrongArguments) {
  SGD sgd(two_groups(), {.lr = 0.1}), other(two_groups());
  Tensor w = leaf({1});
  struct Plain : Optimizer {
    explicit Plain(Parameters p) : Optimizer("Plain", std::move(p), {{"lr", 0.1}}) {}
    void update(ParamGroup&) override {}
  } plain({w});
  const auto text = [](auto body) { return error_of(body); };
  EXPECT_TRUE(contains(text([&] { StepLR(sgd, {}); }), "step_size must be positive, got 0"));
  EXPECT_TRUE(contains(text([&] { StepLR(plain, {.step_size = 3, .last_epoch = 4}); }),
                       "has no 'initial_lr'"));
  EXPECT_TRUE(contains(text([&] { LinearLR(sgd, {.start_factor = 0}); }), "start_factor"));
  EXPECT_TRUE(contains(text([&] { CosineAnnealingLR(sgd, {.T_max = 0}); }), "T_max"));
  EXPECT_TRUE(contains(text([&] { OneCycleLR(sgd, {.max_lr = 1}); }), "total_steps"));
  EXPECT_TRUE(contains(text([&] { OneCycleLR(plain, {.max_lr = 1, .total_steps = 5}); }),
                       "cycle_momentum"));
  EXPECT_TRUE(contains(text([&] {
                         OneCycleLR(sgd, {.max_lr = {1, 2, 3}, .total_steps = 5});
                       }),
                       "expected one max_lr or 2"));
  EXPECT_TRUE(contains(text([&] { CyclicLR(sgd, {.mode = "round"}); }), "triangular2"));
  EXPECT_TRUE(contains(text([&] { LambdaLR(sgd, std::vector<LambdaLR::Lambda>{}); }),
                       "expected 2 functions"));
  EXPECT_TRUE(contains(text([&] { WarmupCosineLR(sgd, {.warmup_steps = 5, .total_steps = 5}); }),
                       "warmup_steps < total_steps"));
  StepLR first(sgd, {.step_size = 3}), second(other, {.step_size = 3});
  ReduceLROnPlateau plateau(sgd);
  EXPECT_TRUE(contains(text([&] { ChainedScheduler({first, second}); }), "another optimizer"));
  EXPECT_TRUE(contains(text([&] { ChainedScheduler({first, plateau}); }), "ReduceLROnPlateau"));
  EXPECT_TRUE(contains(text([&] { SequentialLR(sgd, {first}, {.milestones = {3}}); }),
                       "expected 0 milestones"));
  OneCycleLR once(sgd, {.max_lr = 0.1, .total_steps = 2});
  once.step();
  once.step();
  EXPECT_TRUE(contains(text([&] { once.step(); }), "beyond total_steps"));
}

TEST(Schedulers, WrongStateChangesNothing) {
  SGD sgd(two_groups(), {.lr = 0.1});
  CosineAnnealingLR cosine(sgd, {.T_max = 30});
  StepLR steps(sgd, {.step_size = 3});
  cosine.step();
  EXPECT_TRUE(contains(error_of([&] { cosine.load_state_dict(steps.state_dict()); }),
                       "'T_max' is missing"));
  Value broken = cosine.state_dict();
  broken["T_max"] = 99;
  broken["_last_lr"] = Value::List{0.1};
  EXPECT_TRUE(contains(error_of([&] { cosine.load_state_dict(broken); }), "expected 2 numbers"));
  EXPECT_EQ(cosine.state_dict().at("T_max").to_int(), 30);
  EXPECT_TRUE(contains(error_of([&] { cosine.load_state_dict(3); }), "expected a dict"));
}

TEST(Schedulers, NewGroup) {
  SGD sgd(two_groups(), {.lr = 0.1});
  StepLR steps(sgd, {.step_size = 3});
  sgd.add_param_group({.params = {leaf({1})}});
  steps.step();
  LambdaLR lambda(sgd, [](int64_t) { return 0.5; });
  EXPECT_EQ(sgd.param_groups()[2].lr(), 0.05);
}

}  // namespace
}  // namespace tensora::testing
