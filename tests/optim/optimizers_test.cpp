#include <cmath>
#include <memory>

#include "tensora/optim.h"
#include "tests/optim/goldens.h"

namespace tensora::testing {
namespace {

using namespace optim;

constexpr int kSteps = 100;

// The parameters and gradients of make_goldens.py.
Tensor parameter(const Shape& sizes, int number, DType dtype) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  Values data;
  for (int64_t i = 0; i < count; ++i) data.push_back(std::sin(0.7 * double(i) + number));
  return constant(data).reshape(sizes).to(dtype).requires_grad_();
}
void give_grad(const Tensor& param, int number, int step) {
  const no_grad guard;
  const Tensor p = param.detach().to(kFloat64);
  const Tensor index = arange(p.numel()).to(kFloat64).reshape(p.sizes());
  const Tensor goal = cos(index * 1.3 + 2.0 * number);
  const Tensor grad =
      (p - goal) * (remainder(index, 3) * 0.25 + 0.5) + sin(p * 3 + 0.05 * step) * 0.1;
  param.set_grad(grad.to(param.dtype()));
}

using Make = std::function<std::unique_ptr<Optimizer>(Parameters)>;
template <class Kind, class Options>
Make maker(Options options) {
  return [options](Parameters params) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Kind>(std::move(params), options);
  };
}
struct Case {
  const char* name;
  Make make;
};

std::vector<Case> adam_like() {
  return {
      {"adam", maker<Adam>(AdamOptions{.lr = 0.02})},
      {"adam_decay", maker<Adam>(AdamOptions{
                         .lr = 0.02, .betas = {0.8, 0.95}, .weight_decay = 0.1, .maximize = true})},
      {"adam_amsgrad",
       maker<Adam>(AdamOptions{.lr = 0.02, .eps = 1e-4, .weight_decay = 0.02, .amsgrad = true})},
      {"adamw", maker<AdamW>(AdamWOptions{.lr = 0.02})},
      {"adamw_amsgrad", maker<AdamW>(AdamWOptions{
                            .lr = 0.02, .weight_decay = 0.3, .amsgrad = true, .maximize = true})},
      {"adamax", maker<Adamax>(AdamaxOptions{.lr = 0.02})},
      {"adamax_decay",
       maker<Adamax>(
           AdamaxOptions{.lr = 0.02, .betas = {0.8, 0.9}, .weight_decay = 0.1, .maximize = true})},
      {"nadam", maker<NAdam>(NAdamOptions{.lr = 0.005})},
      {"nadam_decay",
       maker<NAdam>(NAdamOptions{
           .lr = 0.02, .weight_decay = 0.1, .momentum_decay = 0.02, .maximize = true})},
      {"nadam_decoupled",
       maker<NAdam>(NAdamOptions{.lr = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true})},
      {"radam", maker<RAdam>(RAdamOptions{.lr = 0.02})},
      {"radam_decay",
       maker<RAdam>(
           RAdamOptions{.lr = 0.02, .betas = {0.8, 0.95}, .weight_decay = 0.1, .maximize = true})},
      {"radam_decoupled",
       maker<RAdam>(RAdamOptions{.lr = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true})},
  };
}

std::vector<Case> others() {
  return {
      {"sgd", maker<SGD>(SGDOptions{.lr = 0.05})},
      {"sgd_decay", maker<SGD>(SGDOptions{.lr = 0.05, .weight_decay = 0.1, .maximize = true})},
      {"sgd_momentum",
       maker<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01})},
      {"sgd_nesterov", maker<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.8, .nesterov = true})},
      {"rmsprop", maker<RMSprop>(RMSpropOptions{.lr = 0.01})},
      {"rmsprop_centered",
       maker<RMSprop>(RMSpropOptions{
           .lr = 0.01, .alpha = 0.9, .eps = 1e-2, .weight_decay = 0.1, .centered = true})},
      {"rmsprop_momentum",
       maker<RMSprop>(RMSpropOptions{.lr = 0.01, .momentum = 0.7, .maximize = true})},
      {"rmsprop_all",
       maker<RMSprop>(RMSpropOptions{.lr = 0.01, .eps = 1e-3, .momentum = 0.7, .centered = true})},
      {"adagrad", maker<Adagrad>(AdagradOptions{.lr = 0.1})},
      {"adagrad_decay", maker<Adagrad>(AdagradOptions{.lr = 0.1,
                                                      .lr_decay = 0.05,
                                                      .weight_decay = 0.1,
                                                      .initial_accumulator_value = 0.2,
                                                      .maximize = true})},
      {"adadelta", maker<Adadelta>(AdadeltaOptions{})},
      {"adadelta_decay",
       maker<Adadelta>(AdadeltaOptions{
           .lr = 0.5, .rho = 0.8, .eps = 1e-4, .weight_decay = 0.1, .maximize = true})},
      {"adafactor", maker<Adafactor>(AdafactorOptions{.lr = 0.01})},
      {"adafactor_all", maker<Adafactor>(AdafactorOptions{.lr = 0.05,
                                                          .beta2_decay = -0.6,
                                                          .eps = {1e-6, 1e-2},
                                                          .d = 2,
                                                          .weight_decay = 0.1,
                                                          .maximize = true})},
      {"lion", maker<Lion>(LionOptions{.lr = 0.01})},
      {"lion_decay", maker<Lion>(LionOptions{
                         .lr = 0.01, .betas = {0.8, 0.95}, .weight_decay = 0.2, .maximize = true})},
  };
}

std::vector<Case> muons() {
  return {
      {"muon", maker<Muon>(MuonOptions{.lr = 0.02})},
      {"muon_adamw", maker<Muon>(MuonOptions{.lr = 0.02,
                                             .weight_decay = 0.3,
                                             .momentum = 0.8,
                                             .nesterov = false,
                                             .adjust_lr_fn = "match_rms_adamw"})},
      {"muon_spectral",
       maker<Muon>(MuonOptions{.lr = 0.02, .ns_steps = 3, .adjust_lr_fn = "spectral_unclamped"})},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all = adam_like();
  for (const Case& c : others()) all.push_back(c);
  return all;
}

// The numbers of a golden: every fourth step the first elements, at the end all.
Values trajectory(const std::vector<Tensor>& params, const std::function<void(int)>& take_step) {
  Values numbers;
  for (int step = 0; step < kSteps; ++step) {
    take_step(step);
    if (step % 4 != 3) continue;
    for (const Tensor& p : params) numbers.push_back(values(p.detach().reshape({-1}))[0]);
  }
  for (const Tensor& p : params)
    for (double value : values(p.detach().reshape({-1}))) numbers.push_back(value);
  return numbers;
}

// With `reload`, a new optimizer loads the state before that step.
Values stepped(const Case& c, std::vector<Tensor> params, int reload = -1) {
  std::unique_ptr<Optimizer> optimizer = c.make(params);
  return trajectory(params, [&](int step) {
    if (step == reload) {
      std::unique_ptr<Optimizer> next = c.make(params);
      next->load_state_dict(optimizer->state_dict());
      optimizer = std::move(next);
    }
    for (size_t i = 0; i < params.size(); ++i) give_grad(params[i], int(i), step);
    optimizer->step();
  });
}
std::vector<Tensor> usual(DType dtype) {
  return {parameter({4, 3}, 0, dtype), parameter({5}, 1, dtype)};
}
std::vector<Tensor> matrices(DType dtype) {
  return {parameter({4, 6}, 0, dtype), parameter({5, 2}, 1, dtype)};
}

TEST(Optimizers, FollowPyTorch) {
  const auto goldens = read_goldens("optimizers.txt");
  for (const Case& c : all_cases()) {
    ASSERT_TRUE(goldens.count(c.name)) << c.name;
    expect_close(stepped(c, usual(kFloat64)), goldens.at(c.name), 1e-9, c.name);
    // Lion's steps are signs: where a gradient passes 0, rounding decides.
    const double tolerance = std::string(c.name).starts_with("lion") ? 0.05 : 2e-4;
    expect_close(stepped(c, usual(kFloat32)), goldens.at(c.name), tolerance,
                 c.name + std::string(" in float32"));
  }
}

// Muon computes in bfloat16, where each product is rounded in its own way.
TEST(Optimizers, MuonFollowsPyTorch) {
  const auto goldens = read_goldens("optimizers.txt");
  for (const Case& c : muons())
    expect_close(stepped(c, matrices(kFloat64)), goldens.at(c.name), 0.03, c.name);
}

TEST(Optimizers, GoOnFromASavedState) {
  for (const Case& c : all_cases())
    for (DType dtype : {kFloat32, kBFloat16})
      EXPECT_EQ(stepped(c, usual(dtype), 37), stepped(c, usual(dtype))) << c.name;
  for (const Case& c : muons())
    EXPECT_EQ(stepped(c, matrices(kFloat32), 37), stepped(c, matrices(kFloat32))) << c.name;
}

TEST(Optimizers, StatesOfHalfParametersAreFloat32) {
  for (const Case& c : all_cases()) {
    const std::vector<Tensor> params = usual(kBFloat16);
    const auto optimizer = c.make(params);
    for (size_t i = 0; i < params.size(); ++i) give_grad(params[i], int(i), 0);
    optimizer->step();
    for (const auto& [key, value] : optimizer->state(params[0]).to_dict())
      EXPECT_EQ(value.to_tensor().dtype(), kFloat32) << c.name << " " << to_text(key);
    EXPECT_EQ(params[0].dtype(), kBFloat16) << c.name;
  }
}

TEST(Optimizers, NarrowStatesFollowPyTorch) {
  const Case narrow{"adamw", maker<AdamW>(AdamWOptions{.lr = 0.02, .narrow_states = true})};
  const std::vector<Tensor> params = {parameter({5}, 0, kBFloat16)};
  const auto optimizer = narrow.make(params);
  for (int step = 0; step < kSteps; ++step) {
    give_grad(params[0], 0, step);
    optimizer->step();
  }
  for (const char* state : {"exp_avg", "exp_avg_sq"})
    EXPECT_EQ(optimizer->state(params[0]).at(state).to_tensor().dtype(), kBFloat16) << state;
  // torch.optim.AdamW(fused=True), PyTorch 2.15
  const Values expected = {0.890625, 0.365234375, -0.51953125, -0.5703125, 0.45703125};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(values(params[0].detach())[i], expected[i], 8e-3) << i;
  EXPECT_EQ(stepped(narrow, usual(kBFloat16), 37), stepped(narrow, usual(kBFloat16)));
  const Case both{"adamw", maker<AdamW>(AdamWOptions{
                               .lr = 0.02, .master_weights = true, .narrow_states = true})};
  EXPECT_EQ(stepped(both, usual(kBFloat16), 37), stepped(both, usual(kBFloat16)));
}

TEST(Optimizers, ScaledGradients) {
  const auto number = [](double value) { return full({}, value, {.dtype = kFloat32}); };
  for (const Case& c : all_cases()) {
    const std::vector<Tensor> params = usual(kFloat64), plain = usual(kFloat64);
    const auto optimizer = c.make(params), reference = c.make(plain);
    if (!optimizer->supports_grad_scaling()) {
      EXPECT_TRUE(contains(error_of([&] {
                             optimizer->step(GradScaling{number(1), number(0)});
                           }),
                           "cannot step with scaled gradients"));
      continue;
    }
    for (int step = 0; step < 6; ++step) {
      for (size_t i = 0; i < params.size(); ++i) {
        give_grad(params[i], int(i), step);
        give_grad(plain[i], int(i), step);
        params[i].set_grad(params[i].grad() * 16);
      }
      // SGD's dampening does not act on the first step; a step that is left out ends that.
      if (step > 0) optimizer->step(GradScaling{number(16), number(1)});
      optimizer->step(GradScaling{number(16), number(0)});
      reference->step();
    }
    EXPECT_EQ(values(params[0].detach().reshape({-1})), values(plain[0].detach().reshape({-1})))
        << c.name;
  }
}

TEST(Optimizers, OddParameters) {
  for (const Case& c : all_cases()) {
    const std::vector<Tensor> params{parameter({}, 0, kFloat32), zeros({0, 3}).requires_grad_(),
                                     parameter({3, 4}, 1, kFloat16).detach().t().requires_grad_(),
                                     parameter({2, 3, 4, 5}, 2, kFloat32)
                                         .detach()
                                         .contiguous(MemoryFormat::channels_last)
                                         .requires_grad_()};
    const auto optimizer = c.make(params);
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < params.size(); ++i) give_grad(params[i], int(i), step);
      optimizer->step();
    }
    for (const Tensor& p : params)
      for (double value : values(p.detach().reshape({-1})))
        EXPECT_TRUE(std::isfinite(value)) << c.name;
  }
}

TEST(Optimizers, MasterWeights) {
  for (const Case& c :
       {Case{"adamw", maker<AdamW>(AdamWOptions{.lr = 0.02, .master_weights = true})},
        Case{"sgd", maker<SGD>(SGDOptions{.lr = 0.05, .master_weights = true})},
        Case{"lion", maker<Lion>(LionOptions{.lr = 0.01, .master_weights = true})}}) {
    const std::vector<Tensor> params = usual(kBFloat16);
    const auto optimizer = c.make(params);
    for (int step = 0; step < 5; ++step) {
      give_grad(params[0], 0, step);
      optimizer->step();
    }
    const Tensor master = optimizer->state(params[0]).at("master_param").to_tensor();
    EXPECT_EQ(master.dtype(), kFloat32);
    EXPECT_EQ(values(master.to(kBFloat16).reshape({-1})), values(params[0].detach().reshape({-1})))
        << c.name;
  }
}

// The closure of make_goldens.py.
Values minimised(const LBFGSOptions& options, int reload = -1) {
  const double sign = options.maximize ? -1 : 1;
  const std::vector<Tensor> params = usual(kFloat64);
  auto optimizer = std::make_unique<LBFGS>(params, options);
  const auto closure = [&] {
    optimizer->zero_grad();
    const Tensor &a = params[0], &b = params[1];
    const Tensor down = a.narrow(0, 1, 3) - square(a.narrow(0, 0, 3));
    const Tensor loss = square(down).sum() + square(1 - a).sum() * 0.5 + pow(b, 4).sum() / 4 +
                        square(b - a.sum() / 10).sum();
    (loss * sign).backward();
    return loss * sign;
  };
  return trajectory(params, [&](int step) {
    if (step == reload) {
      auto next = std::make_unique<LBFGS>(params, options);
      next->load_state_dict(optimizer->state_dict());
      optimizer = std::move(next);
    }
    optimizer->step(closure);
  });
}

TEST(Optimizers, LbfgsFollowsPyTorch) {
  const auto goldens = read_goldens("optimizers.txt");
  const std::pair<const char*, LBFGSOptions> cases[] = {
      {"lbfgs", {.lr = 0.1, .max_iter = 4}},
      {"lbfgs_history", {.lr = 0.5, .max_iter = 6, .max_eval = 5, .history_size = 3}},
      {"lbfgs_wolfe", {.max_iter = 5, .line_search_fn = "strong_wolfe"}},
      {"lbfgs_wolfe_max",
       {.lr = 0.3, .max_iter = 3, .line_search_fn = "strong_wolfe", .maximize = true}}};
  for (const auto& [name, options] : cases) {
    expect_close(minimised(options), goldens.at(name), 1e-7, name);
    EXPECT_EQ(minimised(options, 2), minimised(options)) << name;
  }
}

TEST(Optimizers, LbfgsMistakes) {
  Tensor w = leaf({1}), v = leaf({2});
  LBFGS opt({w});
  EXPECT_TRUE(contains(error_of([&] { opt.step(); }), "needs a closure"));
  EXPECT_TRUE(contains(error_of([&] { LBFGS({{.params = {w}}, {.params = {v}}}); }), "one group"));
  EXPECT_TRUE(contains(error_of([&] { LBFGS({w}, {.line_search_fn = "weak"}); }), "strong_wolfe"));
  LBFGS none(std::vector<ParamGroup>(1));
  EXPECT_EQ(none.step([&] { return ones({}); }).item<double>(), 1);
}

TEST(Optimizers, WrongOptions) {
  Tensor w = leaf({1});
  const auto text = [](auto body) { return error_of(body); };
  EXPECT_TRUE(contains(text([&] { RMSprop({w}, {.alpha = -1}); }), "RMSprop: the option 'alpha'"));
  EXPECT_TRUE(contains(text([&] { Adadelta({w}, {.rho = 2}); }), "'rho' must be between 0 and 1"));
  EXPECT_TRUE(contains(text([&] { Adafactor({w}, {.d = 0.5}); }), "'d' must be at least 1"));
  EXPECT_TRUE(contains(text([&] { Lion({w}, {.betas = {1, 0}}); }), "Lion: the option 'betas'"));
  EXPECT_TRUE(contains(text([&] { Muon({w}); }), "must be matrices, got shape [1]"));
}

TEST(AveragedParameters, MovingAverage) {
  Tensor w = leaf({1, 2}), count = tensor({int64_t{0}});
  AveragedParameters ema({w, count}, {.decay = 0.9}), swa({w});
  Values expected, mean;
  for (int step = 0; step < 5; ++step) {
    {
      const no_grad guard;
      w.add_(1);
      count.add_(1);
    }
    ema.update_parameters();
    swa.update_parameters();
    const Values now = values(w);
    for (size_t i = 0; i < 2; ++i) {
      if (step == 0) {
        expected = mean = now;
        continue;
      }
      expected[i] = 0.9 * expected[i] + 0.1 * now[i];
      mean[i] += (now[i] - mean[i]) / (step + 1);
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(values(ema.averages()[0])[i], expected[i], 1e-12);
    EXPECT_NEAR(values(swa.averages()[0])[i], mean[i], 1e-12);
  }
  EXPECT_EQ(values(ema.averages()[1]), (Values{5}));
  const Values before = values(w);
  {
    const AveragedParameters::Applied applied(ema);
    EXPECT_EQ(values(w), values(ema.averages()[0]));
  }
  EXPECT_EQ(values(w), before);
  AveragedParameters other({w, count}, {.decay = 0.9});
  other.load_state_dict(ema.state_dict());
  EXPECT_EQ(values(other.averages()[0]), values(ema.averages()[0]));
  EXPECT_EQ(other.n_averaged(), 5);
  EXPECT_TRUE(contains(error_of([&] { swa.load_state_dict(ema.state_dict()); }),
                       "expected 1 averages, got 2"));
  EXPECT_TRUE(contains(error_of([&] { AveragedParameters({w}, {.decay = 2}); }), "decay"));
}

TEST(AveragedParameters, OfHalfParametersAreFloat32) {
  Tensor w = ones({3}, {.dtype = kBFloat16});
  AveragedParameters ema({w}, {.decay = 0.999});
  ema.update_parameters();
  w.fill_(2);
  for (int i = 0; i < 10; ++i) ema.update_parameters();
  EXPECT_NEAR(values(ema.averages()[0])[0], 2 - std::pow(0.999, 10), 1e-5);
}

}  // namespace
}  // namespace tensora::testing
