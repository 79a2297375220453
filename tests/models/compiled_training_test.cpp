// Two hundred compiled training steps follow the losses of eager ones, with dropout.
#include <gtest/gtest.h>

#include <cmath>

#include "tensora/jit/compile.h"
#include "tensora/models/gpt2.h"
#include "tensora/models/resnet.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

constexpr int kSteps = 200;

enum class Mode : uint8_t { eager, compiled, everything_fused };

/// The losses of steps that `make_step` builds, from one seed.
template <class Make>
std::vector<float> losses(const Make& make_step, Mode mode) {
  manual_seed(21);
  const std::function<Tensor()> step = make_step();
  const auto compiled = compile(
      step, {.fuse = mode == Mode::compiled ? Fuse::what_pays : Fuse::everything, .strict = true});
  std::vector<Tensor> kept;
  for (int i = 0; i < kSteps; ++i) kept.push_back(mode == Mode::eager ? step() : compiled());
  std::vector<float> result;
  for (const Tensor& loss : kept) result.push_back(loss.item<float>());
  return result;
}

template <class Make>
void expect_eagers_losses(const Make& make_step) {
  const std::vector<float> eager = losses(make_step, Mode::eager);
  EXPECT_LT(eager.back(), 0.9f * eager.front()) << "it does not learn";
  for (const Mode mode : {Mode::compiled, Mode::everything_fused}) {
    const std::vector<float> found = losses(make_step, mode);
    for (size_t i = 0; i < eager.size(); ++i)
      ASSERT_NEAR(found[i], eager[i], 2e-3 * (1 + std::abs(eager[i]))) << "step " << i;
  }
}

TEST(CompiledTraining, GptFollowsEager) {
  expect_eagers_losses([] {
    const models::GPT2Config config{
        .vocab_size = 40, .n_positions = 24, .n_embd = 32, .n_layer = 2, .n_head = 4};
    const auto model = std::make_shared<models::GPT2>(config);
    model->train();
    const auto optimizer =
        std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 1e-3});
    const Tensor text = (arange(4 * 25) * 7 % 40).view({4, 25});
    const Tensor x = text.narrow(1, 0, 24).contiguous(), y = text.narrow(1, 1, 24).contiguous();
    return [=] {
      const Tensor loss = (*model)(x, y);
      loss.backward();
      optimizer->step();
      optimizer->zero_grad();
      return loss.detach();
    };
  });
}

/// A ResNet with two blocks, and dropout before its last layer.
struct SmallResNet : nn::Layer<SmallResNet> {
  nn::Conv2d conv = register_module("conv", nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(8));
  models::ResNetBlock first = register_module("first", models::ResNetBlock(8, 8, 1, false));
  models::ResNetBlock second = register_module("second", models::ResNetBlock(8, 16, 2, false));
  nn::Linear head = register_module("head", nn::Linear(16, 5));
  Tensor forward(const Tensor& images) const {
    const Tensor features = second(first(norm(conv(images)).relu())).mean({2, 3});
    return head(dropout(features, 0.2, is_training()));
  }
};

TEST(CompiledTraining, ResNetFollowsEager) {
  expect_eagers_losses([] {
    const auto model = std::make_shared<SmallResNet>();
    model->train();
    const auto optimizer = std::make_shared<optim::SGD>(
        model->parameters(), optim::SGDOptions{.lr = 0.02, .momentum = 0.9});
    const Tensor x = randn({10, 3, 12, 12}), y = arange(10) % 5;
    return [=] {
      const Tensor loss = cross_entropy((*model)(x), y);
      loss.backward();
      optimizer->step();
      optimizer->zero_grad();
      return loss.detach();
    };
  });
}

}  // namespace
}  // namespace tensora::test
