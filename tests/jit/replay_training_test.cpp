// Replayed training steps: gradients, optimizers and learning rates are those of eager execution.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tensora/jit/compile.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"
#include "tests/jit/training_program.h"

namespace tensora::test {
namespace {

std::vector<float> values(const Tensor& tensor) { return to_vector<float>(tensor); }

/// A network of two layers.
struct Network {
  std::vector<Tensor> weights;
  Network() {
    manual_seed(3);
    for (const Shape& sizes : {Shape{6, 4}, Shape{6}, Shape{2, 6}, Shape{2}})
      weights.push_back((randn(sizes) * 0.4).requires_grad_());
  }
  Tensor loss(const Tensor& x, const Tensor& y) const {
    const Tensor hidden = linear(x, weights[0], weights[1]).tanh();
    return mse_loss(linear(dropout(hidden, 0.2), weights[2], weights[3]), y);
  }
};

using Make = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

std::vector<std::pair<std::string, Make>> optimizers() {
  using namespace optim;
  return {
      {"SGD", [](const auto& p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1}); }},
      {"momentum",
       [](const auto& p) {
         return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9});
       }},
      {"Adam", [](const auto& p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.05}); }},
      {"AdamW capturable",
       [](const auto& p) {
         return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.05, .capturable = true});
       }},
      {"RMSprop",
       [](const auto& p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.01}); }},
      {"NAdam", [](const auto& p) { return std::make_unique<NAdam>(p); }}};
}

// What calls in turn return, and what they leave behind.
struct Outcome {
  std::vector<std::vector<float>> all;
  uint64_t replayed = 0;
  std::string reason;
};
void expect_close(const Outcome& actual, const Outcome& expected) {
  ASSERT_EQ(actual.all.size(), expected.all.size());
  for (size_t i = 0; i < actual.all.size(); ++i) {
    ASSERT_EQ(actual.all[i].size(), expected.all[i].size()) << i;
    for (size_t k = 0; k < actual.all[i].size(); ++k)
      ASSERT_NEAR(actual.all[i][k], expected.all[i][k], 2e-4) << "list " << i << ", number " << k;
  }
}

Outcome train(const Make& make, bool replays, int zero, bool changes_rates) {
  const Network network;
  const auto optimizer = make(network.weights);
  const auto step = [&](const Tensor& x, const Tensor& y) {
    if (zero == 0) optimizer->zero_grad();
    const Tensor loss = network.loss(x, y);
    loss.backward();
    optimizer->step();
    if (zero > 0) optimizer->zero_grad(zero == 1);
    return loss.detach();
  };
  const auto fast = compile(step, {.replay = true});
  Outcome outcome;
  manual_seed(11);
  std::vector<Tensor> gradients;
  for (int i = 0; i < 14; ++i) {
    const Tensor x = randn({5, 4}), y = randn({5, 2});
    outcome.all.push_back(values(replays ? fast(x, y) : step(x, y)));
    for (const Tensor& weight : network.weights) {
      outcome.all.push_back(values(weight.detach()));
      EXPECT_EQ(weight.grad().defined(), zero != 1);
      if (weight.grad().defined()) gradients.push_back(weight.grad());
    }
    if (changes_rates && i % 3 == 2) {
      optim::ParamGroup& group = optimizer->param_groups()[0];
      group.set_lr(group.lr() * 0.7);
    }
  }
  for (const Tensor& gradient : gradients) outcome.all.push_back(values(gradient));
  for (const Tensor& weight : network.weights)
    if (optimizer->has_state(weight))
      for (const auto& [key, value] : optimizer->state(weight).to_dict())
        if (value.is_tensor()) outcome.all.push_back(values(value.to_tensor().to(kFloat32)));
  outcome.all.push_back(values(rand({3})));
  outcome.replayed = fast.replayed();
  if (replays) outcome.reason = fast.explain(randn({5, 4}), randn({5, 2}));
  return outcome;
}

TEST(ReplayTraining, StepsAreThoseOfEagerExecution) {
  for (const auto& [name, make] : optimizers())
    for (const int zero : {0, 1, 2})
      for (const bool changes : {false, true}) {
        SCOPED_TRACE(concat(name, " zero ", zero, changes ? " with other rates" : ""));
        const Outcome replayed = train(make, true, zero, changes);
        expect_close(replayed, train(make, false, zero, changes));
        EXPECT_GT(replayed.replayed, 7u) << replayed.reason;
      }
}

TEST(ReplayTraining, GradientsAccumulateBetweenSteps) {
  for (const bool given : {false, true}) {  // the leaf is an argument
    const Tensor weight = ones({3}).requires_grad_(), other = ones({3}).requires_grad_();
    const auto add = [&](const Tensor& leaf, const Tensor& x) {
      ((given ? leaf : weight) * x).square().sum().backward();
    };
    const auto fast = compile(add, {.replay = true});
    float sum = 0, other_sum = 0;
    for (int i = 0; i < 24; ++i) {
      const bool turn = given && i > 10 && i % 2;
      const Tensor& leaf = turn ? other : weight;
      if (i % 8 == 7) {
        leaf.set_grad({});
        (turn ? other_sum : sum) = 0;
      }
      fast(leaf, full({3}, i));
      (turn ? other_sum : sum) += 2.0f * static_cast<float>(i * i);
      EXPECT_EQ(values(leaf.grad()), values(full({3}, turn ? other_sum : sum))) << i;
    }
    EXPECT_GT(fast.replayed(), 2u) << given;
  }
}

TEST(ReplayTraining, WhatIsNotRepeatedIsRefused) {
  const Network network;
  const Tensor x = randn({5, 4}), y = randn({5, 2});
  optim::Adam optimizer(network.weights, optim::AdamOptions{.lr = 0.01});
  optim::StepLR scheduler(optimizer, {.step_size = 10});
  int calls = 0;
  const auto never = [&](const char* reason, const auto& more) {
    const auto f = compile(
        [&] {
          optimizer.zero_grad();
          const Tensor loss = network.loss(x, y);
          loss.backward();
          optimizer.step();
          return more(loss);
        },
        {.replay = true});
    for (int i = 0; i < 5; ++i) f();
    EXPECT_EQ(f.replayed(), 0u) << reason;
    EXPECT_NE(f.explain().find(reason), std::string::npos) << f.explain();
  };
  never("a learning-rate scheduler steps in the body", [&](const Tensor& loss) {
    scheduler.step();
    return loss.detach();
  });
  never("changes the settings of an optimizer", [&](const Tensor& loss) {
    optimizer.param_groups()[0].set_lr(0.1 / ++calls);
    return loss.detach();
  });
  never("a result requires a gradient", [&](const Tensor& loss) { return loss; });
  never("the host reads",
        [&](const Tensor& loss) { return loss.item<float>() > 0 ? loss.detach() : x; });
  const Tensor buffer = zeros({2, 6});
  never("writes into a tensor from outside", [&](const Tensor& loss) {
    buffer.mul_(network.weights[2]);
    const Tensor result = loss.detach();
    buffer.detach_();
    return result;
  });
  const auto remove = network.weights[0].register_hook([](const Tensor& grad) { return grad * 2; });
  never("a hook runs in backward", [&](const Tensor& loss) { return loss.detach(); });
  remove();
  const auto unhook = optimizer.register_step_post_hook([&](optim::Optimizer&) { ++calls; });
  never("an optimizer has hooks", [&](const Tensor& loss) { return loss.detach(); });
  unhook();
}

TEST(ReplayTraining, RatesThatTheBodySetsEarlyAreNotReplayed) {
  const Network network;
  const Tensor x = randn({5, 4}), y = randn({5, 2});
  optim::SGD optimizer(network.weights, optim::SGDOptions{.lr = 0.01});
  int calls = 0;
  const auto f = compile(
      [&] {
        optimizer.param_groups()[0].set_lr(0.1 / ++calls);
        optimizer.zero_grad();
        const Tensor loss = network.loss(x, y);
        loss.backward();
        optimizer.step();
        return loss.detach();
      },
      {.replay = true});
  for (int i = 0; i < 6; ++i) f();
  EXPECT_EQ(calls, 6);
  const std::string text = f.explain();
  EXPECT_NE(text.find("changes the settings"), std::string::npos) << text;
}

// The step makes states, or leaves parameters out, that the recording has otherwise.
TEST(ReplayTraining, StepsThatCallOtherOps) {
  for (const int kind : {0, 1, 2}) {
    std::vector<std::vector<float>> all[2];
    for (int way = 0; way < 2; ++way) {
      const Network network;
      optim::Adam optimizer(network.weights, optim::AdamOptions{.lr = 0.05});
      const auto step = [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = network.loss(x, y);
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
        return loss.detach() * 2;
      };
      const auto fast = compile(step, {.replay = true});
      manual_seed(5);
      for (int i = 0; i < 14; ++i) {
        const Tensor x = randn({5, 4}), y = randn({5, 2});
        all[way].push_back(values(way ? fast(x, y) : step(x, y)));
        for (const Tensor& weight : network.weights) all[way].push_back(values(weight.detach()));
        if (i == 6 && kind == 0) optimizer.state(network.weights[1]) = Value::dict();
        if (i == 6 && kind == 1) optimizer.param_groups()[0].set("amsgrad", true);
        if (i == 6 && kind == 2) network.weights[0].requires_grad_(false);
        if (i == 10 && kind == 2) network.weights[0].requires_grad_(true);
      }
      if (way) {
        EXPECT_GT(fast.replayed(), 4u);
      }
    }
    for (size_t i = 0; i < all[0].size(); ++i)
      for (size_t k = 0; k < all[0][i].size(); ++k)
        ASSERT_NEAR(all[0][i][k], all[1][i][k], 2e-4) << "kind " << kind << " list " << i;
  }
}

TEST(ReplayTraining, LeavesOfTheBodyAndFactories) {
  const Tensor w = ones({4});
  const auto body = [&](const Tensor& x) {
    const Tensor leaf = x.detach().requires_grad_();
    const Tensor scale = zeros({4}) + rand({4});
    (leaf * w * scale).sum().backward();
    return leaf.grad() + arange(4, {.dtype = kFloat32});
  };
  const auto fast = compile(body, {.replay = true});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({4}, static_cast<double>(i));
    manual_seed(static_cast<uint64_t>(i));
    const Tensor expected = body(x);
    manual_seed(static_cast<uint64_t>(i));
    EXPECT_EQ(values(fast(x)), values(expected));
    EXPECT_FALSE(x.requires_grad());
  }
  EXPECT_GT(fast.replayed(), 2u);
}

TEST(ReplayTraining, VerifyFindsAnotherModel) {
  Network network;
  optim::SGD optimizer(network.weights, optim::SGDOptions{.lr = 0.01});
  const Tensor x = randn({5, 4}), y = randn({5, 2});
  Tensor scale = ones({});
  const auto f = compile(
      [&] {
        const Tensor loss = network.loss(x, y) * scale;
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
        return loss.detach();
      },
      {.replay = true, .verify = 3});
  for (int i = 0; i < 8; ++i) f();
  EXPECT_GT(f.replayed(), 2u);
  scale = full({}, 2.0);
  EXPECT_THROW(
      {
        for (int i = 0; i < 4; ++i) f();
      },
      Error);
}

TEST(ReplayTraining, AnOptimizerThatIsGone) {
  const Network network;
  const Tensor x = randn({5, 4}), y = randn({5, 2});
  auto optimizer = std::make_unique<optim::Adam>(network.weights);
  const auto f = compile(
      [&] {
        const Tensor loss = network.loss(x, y);
        loss.backward();
        optimizer->step();
        optimizer->zero_grad();
        return loss.detach();
      },
      {.replay = true});
  for (int i = 0; i < 5; ++i) f();
  EXPECT_GT(f.replayed(), 1u);
  optimizer = std::make_unique<optim::Adam>(network.weights);
  const uint64_t before = f.replayed();
  f();
  EXPECT_EQ(f.replayed(), before);
  for (int i = 0; i < 4; ++i) f();
  EXPECT_EQ(optimizer->state(network.weights[0]).at("step").to_tensor().item<float>(), 5);
}

TEST(ReplayTraining, RandomPrograms) {
  const char* const soak = std::getenv("TENSORA_SOAK");
  const char* const first = std::getenv("TENSORA_SOAK_SEED");
  const uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 0;
  const uint64_t count = 60 * static_cast<uint64_t>(soak ? std::max(1, std::atoi(soak)) : 1);
  uint64_t replayed = 0;
  for (uint64_t seed = begin; seed < begin + count; ++seed) {
    SCOPED_TRACE(concat("program ", seed, ": ", TrainingProgram(seed, false, true).describe()));
    const auto trained = [&](bool replays, bool nudged) {
      TrainingProgram program(seed, nudged, true);
      const auto fast = compile(
          [&](const Tensor& tokens, const Tensor& labels, const Tensor& noise) {
            return program.step({tokens, labels, noise});
          },
          {.replay = true});
      std::vector<Tensor> all;
      for (uint64_t number = 0; number < program.steps() + 4; ++number) {
        const TrainingProgram::Batch batch = program.batch(number % 3);
        all.push_back(replays ? fast(batch.tokens, batch.labels, batch.noise)
                              : program.step(batch));
        if (number == 4) {
          optim::ParamGroup& group = program.optimizer().param_groups()[0];
          group.set_lr(group.lr() * 0.5);
        }
      }
      for (const Tensor& one : program.outcome()) all.push_back(one.detach());
      all.push_back(rand({3}));
      replayed += fast.replayed();
      return all;
    };
    const std::vector<Tensor> eager = trained(false, false), nudged = trained(false, true);
    const std::vector<Tensor> actual = trained(true, false);
    ASSERT_EQ(actual.size(), eager.size());
    for (size_t k = 0; k < eager.size(); ++k) {
      ASSERT_EQ(actual[k].dtype(), eager[k].dtype()) << "tensor " << k;
      ASSERT_EQ(to_string(actual[k].sizes()), to_string(eager[k].sizes())) << "tensor " << k;
      const Tensor a = actual[k].to(kFloat64), e = eager[k].to(kFloat64);
      const double bound = 4 * TrainingProgram(seed, false, true).tolerance();
      const double noise =
          e.numel() == 0 ? 0 : 200 * (nudged[k].to(kFloat64) - e).abs().max().item<double>();
      ASSERT_TRUE(noise != noise || allclose(a, e, bound, bound + noise, true))
          << "tensor " << k << ": " << a << " instead of " << e;
    }
  }
  EXPECT_GT(replayed, count);
}

}  // namespace
}  // namespace tensora::test
