// What LibTorch's optimizers remember, by LibTorch's classes.
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using torch::optim::AdamParamState;

void step(torch::optim::Optimizer& optimizer, const torch::Tensor& weight, double gradient) {
  weight.mutable_grad() = torch::full_like(weight, gradient);
  optimizer.step();
}

TEST(LibTorchOptimState, ShowsTheStateOfAParameter) {
  auto weight = torch::ones({3}, torch::requires_grad());
  torch::optim::Adam adam({weight}, torch::optim::AdamOptions(0.1));
  EXPECT_TRUE(adam.state().empty());
  step(adam, weight, 2);
  ASSERT_EQ(adam.state().size(), 1u);
  auto& state = static_cast<AdamParamState&>(*adam.state().at(weight.unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 1);
  EXPECT_TRUE(torch::allclose(state.exp_avg(), torch::full({3}, 0.2)));
  EXPECT_TRUE(torch::allclose(state.exp_avg_sq(), torch::full({3}, 0.004), 1e-3));
  EXPECT_FALSE(state.max_exp_avg_sq().defined());
  step(adam, weight, 2);
  EXPECT_EQ(state.step(), 2);  // the same object still shows it
}

TEST(LibTorchOptimState, WhatIsSetIsUsed) {
  const auto weight = torch::ones({2}, torch::requires_grad());
  const auto other = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(0.5).momentum(0.5));
  torch::optim::SGD copy({other}, torch::optim::SGDOptions(0.5).momentum(0.5));
  step(sgd, weight, 1);
  auto state = std::make_unique<torch::optim::SGDParamState>();
  state->momentum_buffer(torch::full({2}, 3.0));
  copy.state()[other.unsafeGetTensorImpl()] = std::move(state);
  step(copy, other, 1);
  EXPECT_TRUE(torch::allclose(other, torch::full({2}, 1 - 0.5 * (0.5 * 3 + 1))));
  auto& shown =
      static_cast<torch::optim::SGDParamState&>(*sgd.state().at(weight.unsafeGetTensorImpl()));
  shown.momentum_buffer(torch::full({2}, 3.0));
  const auto before = weight.detach().clone();
  step(sgd, weight, 1);
  EXPECT_TRUE(torch::allclose(weight, before - 0.5 * (0.5 * 3 + 1)));
}

TEST(LibTorchOptimState, SurvivesFilesAndCopies) {
  const auto weight = torch::ones({2}, torch::requires_grad());
  torch::optim::RMSprop one({weight}, torch::optim::RMSpropOptions(0.1).momentum(0.9));
  step(one, weight, 1);
  std::stringstream file;
  torch::save(one, file);
  torch::optim::RMSprop two({weight}, torch::optim::RMSpropOptions(0.1).momentum(0.9));
  torch::load(two, file);
  using State = torch::optim::RMSpropParamState;
  const auto& first = static_cast<const State&>(*one.state().begin()->second);
  const auto& second = static_cast<const State&>(*two.state().begin()->second);
  EXPECT_TRUE(first == second);
  const auto copy = first.clone();
  step(one, weight, 1);
  EXPECT_FALSE(first == second);
  EXPECT_TRUE(static_cast<const State&>(*copy).step() == 1 ||
              static_cast<const State&>(*copy).step() == 2);
}

TEST(LibTorchOptimState, GroupsThatTheCallerAddsAreStepped) {
  const auto a = torch::ones({2}, torch::requires_grad());
  const auto b = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD sgd({a}, torch::optim::SGDOptions(1));
  sgd.param_groups().push_back(torch::optim::OptimizerParamGroup({b}));
  b.mutable_grad() = torch::ones({2});
  sgd.step();
  EXPECT_TRUE(torch::equal(b, torch::zeros({2})));
}

}  // namespace
