#include "tensora/amp/grad_scaler.h"

#include <cmath>
#include <limits>

#include "tensora/dispatch/autocast.h"
#include "tensora/optim.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Scaling {
  Tensor grad_scale, found_inf;
};

// Gradient descent; with `scales`, by a step that undoes the scaling on the device.
template <bool scales>
struct Descent {
  std::vector<Tensor> list;
  double lr = 0.5;
  int steps = 0;

  std::vector<Tensor> parameters() const { return list; }
  void step() {
    ++steps;
    const no_grad silent;
    for (const Tensor& p : list)
      if (p.grad().defined()) p.sub_(p.grad() * lr);
  }
  bool supports_grad_scaling() const { return scales; }
  void step(const Scaling& scaling)
    requires scales
  {
    ++steps;
    std::vector<Tensor> grads;
    for (const Tensor& p : list) grads.push_back(p.grad());
    fused_sgd_(list, grads, {}, {.lr = lr},
               {.grad_scale = scaling.grad_scale, .found_inf = scaling.found_inf});
  }
};
using Host = Descent<false>;
using Fused = Descent<true>;
static_assert(amp::ScalingOptimizer<Fused> && !amp::ScalingOptimizer<Host>);

Tensor parameter(const Values& data, DType dtype = kFloat32) {
  return tensor(data, {.dtype = dtype}).requires_grad_();
}
void set_grad(const Tensor& p, const Values& data) {
  p.set_grad(tensor(data, {.dtype = p.dtype()}));
}

TEST(GradScaler, ScalesTheLoss) {
  amp::GradScaler scaler({.init_scale = 8});
  const Tensor w = parameter({3});
  const Tensor scaled = scaler.scale(w * w);
  EXPECT_EQ(values(scaled), Values{72});
  scaled.sum().backward();
  EXPECT_EQ(values(w.grad()), Values{48});
  EXPECT_EQ(values(scaler.scale(TensorList{w, w})[1]), Values{24});
  EXPECT_TRUE(contains(error_of([&] { scaler.scale(ones({1}, {.dtype = kInt64})); }), "int64"));
}

template <class Optimizer>
void check_steps() {
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  const Tensor w = parameter({3, 1});
  Optimizer optimizer{{w, parameter({1})}};  // the second has no gradient
  if constexpr (std::is_same_v<Optimizer, Fused>) optimizer.list.pop_back();
  const auto iterate = [&](bool unscale) {
    w.set_grad({});
    scaler.scale((w * w).sum()).backward();
    if (unscale) scaler.unscale_(optimizer);
    scaler.step(optimizer);
    scaler.update();
  };
  iterate(false);
  EXPECT_EQ(values(w), (Values{0, 0}));  // w - 0.5 * 2 w
  EXPECT_EQ(scaler.get_scale(), 8);
  iterate(true);
  EXPECT_EQ(scaler.get_scale(), 16);  // the second good step
  set_grad(w, {kInfinity, 1});
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(values(w), (Values{0, 0}));
  EXPECT_EQ(scaler.get_scale(), 8);
  set_grad(w, {std::nan(""), 1});
  scaler.unscale_(optimizer);
  EXPECT_EQ(values(w.grad())[1], 0.125);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(values(w), (Values{0, 0}));
  EXPECT_EQ(scaler.get_scale(), 4);
}
TEST(GradScaler, StepsUnlessAGradientIsInfinite) { check_steps<Host>(); }
TEST(GradScaler, StepsOnTheDeviceAlone) { check_steps<Fused>(); }

TEST(GradScaler, HostOptimizersAreNotCalledForASkippedStep) {
  amp::GradScaler scaler;
  const Tensor w = parameter({3});
  Host optimizer{{w}};
  scaler.scale(w.sum());
  set_grad(w, {kInfinity});
  scaler.step(optimizer);
  EXPECT_EQ(optimizer.steps, 0);
}

// What PyTorch 2.15 does with init_scale 4, growth 3, backoff 0.25 and interval 3, where steps 2,
// 3 and 9 have an infinite gradient.
TEST(GradScaler, TheScaleFollowsPyTorch) {
  amp::GradScaler scaler(
      {.init_scale = 4, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 3});
  const Tensor w = parameter({1});
  Fused optimizer{{w}};
  scaler.scale(w.sum());
  Values scales;
  for (int step = 0; step < 14; ++step) {
    set_grad(w, {step == 2 || step == 3 || step == 9 ? kInfinity : 1});
    scaler.step(optimizer);
    scaler.update();
    scales.push_back(scaler.get_scale());
  }
  EXPECT_EQ(scales, (Values{4, 4, 1, 0.25, 0.25, 0.25, 0.75, 0.75, 0.75, 0.1875, 0.1875, 0.1875,
                            0.5625, 0.5625}));
  EXPECT_EQ(scaler.state_dict().at("_growth_tracker").to_int(), 1);
}

TEST(GradScaler, TheScaleStaysFinite) {
  amp::GradScaler scaler({.init_scale = 3e38, .growth_interval = 1});
  const Tensor w = parameter({0});
  Fused optimizer{{w}};
  scaler.scale(w.sum());
  set_grad(w, {0});
  scaler.step(optimizer);
  scaler.update();
  EXPECT_FLOAT_EQ(static_cast<float>(scaler.get_scale()), 3e38F);
}

TEST(GradScaler, NamesCallsThatAreMissingOrTooMany) {
  amp::GradScaler scaler;
  const Tensor w = parameter({1});
  Fused optimizer{{w}};
  EXPECT_TRUE(contains(error_of([&] { scaler.step(optimizer); }), "nothing was scaled yet"));
  EXPECT_TRUE(contains(error_of([&] { scaler.unscale_(optimizer); }), "nothing was scaled yet"));
  EXPECT_TRUE(contains(error_of([&] { scaler.update(); }), "nothing was scaled yet"));
  scaler.scale(w.sum());
  EXPECT_TRUE(contains(error_of([&] { scaler.update(); }), "no gradients were checked"));
  EXPECT_TRUE(contains(error_of([&] { scaler.step(optimizer); }), "has a gradient"));
  set_grad(w, {1});
  scaler.unscale_(optimizer);
  EXPECT_TRUE(contains(error_of([&] { scaler.unscale_(optimizer); }), "already called"));
  scaler.step(optimizer);
  EXPECT_TRUE(contains(error_of([&] { scaler.step(optimizer); }), "already called"));
  EXPECT_TRUE(contains(error_of([&] { scaler.unscale_(optimizer); }), "after step"));
  scaler.update();
  const Tensor half = parameter({1}, kFloat16);
  Host other{{half}};
  set_grad(half, {1});
  EXPECT_TRUE(contains(error_of([&] { scaler.unscale_(other); }), "float16 gradients"));
  for (const amp::GradScalerOptions& wrong :
       {amp::GradScalerOptions{.init_scale = 0}, amp::GradScalerOptions{.growth_factor = 1},
        amp::GradScalerOptions{.backoff_factor = 1}, amp::GradScalerOptions{.growth_interval = 0}})
    EXPECT_FALSE(error_of([&] { amp::GradScaler{wrong}; }).empty());
  EXPECT_FALSE(error_of([&] { scaler.update(-1); }).empty());
}

TEST(GradScaler, ReadsGradientsOfEveryDtypeAndLayout) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat64}) {
    for (const double bad : {0.0, kInfinity, -kInfinity, std::nan("")}) {
      amp::GradScaler scaler({.init_scale = 4});
      const Tensor small = parameter({1, 2}, dtype), empty = zeros({0}).requires_grad_();
      const Tensor large = zeros({5000}, {.dtype = dtype}).requires_grad_();
      Host optimizer{{small, empty, large}};
      scaler.scale(small.sum());
      small.set_grad(ones({2, 2}, {.dtype = dtype}).t()[0]);
      empty.set_grad(zeros({0}));
      const Tensor grad = full({5000}, 8, {.dtype = dtype});
      if (bad != 0) grad.index_put_({4999}, bad);
      large.set_grad(grad);
      scaler.unscale_(optimizer);
      EXPECT_EQ(values(small.grad()), (Values{0.25, 0.25}));
      EXPECT_EQ(large.grad()[0].item<double>(), 2);
      scaler.step(optimizer);
      EXPECT_EQ(optimizer.steps, bad == 0) << dtype << bad;
    }
  }
}

TEST(GradScaler, SeveralOptimizersShareTheScale) {
  amp::GradScaler scaler({.init_scale = 4, .growth_interval = 1});
  const Tensor a = parameter({1}), b = parameter({1});
  Fused first{{a}}, second{{b}};
  scaler.scale(a.sum());
  set_grad(a, {4});
  set_grad(b, {kInfinity});
  scaler.step(first);
  scaler.step(second);
  scaler.update();
  EXPECT_EQ(values(a), Values{0.5});
  EXPECT_EQ(values(b), Values{1});
  EXPECT_EQ(scaler.get_scale(), 2);
}

TEST(GradScaler, DoesNothingIfNotEnabled) {
  amp::GradScaler scaler({.enabled = false});
  const Tensor w = parameter({1});
  Fused optimizer{{w}};
  EXPECT_TRUE(scaler.scale(w).is_same(w));
  set_grad(w, {kInfinity});
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  EXPECT_EQ(values(w), Values{-kInfinity});
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(scaler.state_dict().size(), 0u);
}

TEST(GradScaler, ItsStateGoesOnElsewhere) {
  const Tensor w = parameter({1});
  Fused optimizer{{w}};
  amp::GradScaler scaler({.init_scale = 4, .growth_factor = 4, .growth_interval = 3}), later;
  const auto good_step = [&](amp::GradScaler& with) {
    set_grad(w, {0});
    with.scale(w.sum());
    with.step(optimizer);
    with.update();
  };
  good_step(scaler);
  good_step(scaler);
  const Value state = scaler.state_dict();
  EXPECT_EQ(state.at("scale").to_double(), 4);
  EXPECT_EQ(state.at("_growth_tracker").to_int(), 2);
  later.load_state_dict(state);
  EXPECT_EQ(later.get_scale(), 4);
  good_step(later);
  EXPECT_EQ(later.get_scale(), 16);
  scaler.load_state_dict(later.state_dict());  // into one that was used
  EXPECT_EQ(scaler.get_scale(), 16);
  EXPECT_EQ(scaler.state_dict().at("_growth_tracker").to_int(), 0);
  EXPECT_FALSE(error_of([&] { later.load_state_dict(Value::dict()); }).empty());
  Value wrong = state;
  wrong["scale"] = -1.0;
  EXPECT_FALSE(error_of([&] { later.load_state_dict(wrong); }).empty());
}

TEST(GradScaler, StepsTheLibrarysOptimizers) {
  static_assert(amp::ScalingOptimizer<optim::AdamW> && amp::ScalingOptimizer<optim::SGD>);
  const Tensor plain = parameter({1, 2, 3}), scaled = parameter({1, 2, 3});
  optim::AdamW expected({plain}, {.lr = 0.1}), found({scaled}, {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  for (int step = 0; step < 8; ++step) {
    found.zero_grad();
    scaler.scale((scaled * scaled).sum()).backward();
    const bool infinite = step == 3;
    if (infinite) scaled.grad().fill_(kInfinity);
    scaler.step(found);
    scaler.update();
    if (infinite) continue;  // left out: neither the weights nor the count of steps change
    expected.zero_grad();
    (plain * plain).sum().backward();
    expected.step();
    EXPECT_TRUE(allclose(scaled, plain, 1e-6, 1e-6)) << step;
  }
  EXPECT_EQ(found.state(scaled).at("step").to_tensor().item<double>(), 7);
}

TEST(GradScaler, TrainsInFloat16) {
  manual_seed(3);
  const Tensor x = randn({64, 4}), target = x.sum({1}, true) * 0.5;
  const Tensor w = (randn({1, 4}) * 0.1).requires_grad_();
  Fused optimizer{{w}, 0.1};
  amp::GradScaler scaler({.init_scale = 65536.0 * 1024});  // too large at first
  double loss = 0;
  for (int step = 0; step < 100; ++step) {
    w.set_grad({});
    Tensor current;
    {
      const autocast half(kFloat16);
      current = mse_loss(linear(x, w), target);
    }
    scaler.scale(current).backward();
    scaler.step(optimizer);
    scaler.update();
    loss = current.item<double>();
  }
  EXPECT_LT(loss, 1e-3);
  EXPECT_LT(scaler.get_scale(), 65536.0 * 1024);
}

}  // namespace
}  // namespace tensora::testing
