// Programs in LibTorch's words.
#include "tensora/libtorch.h"

#include "../helpers.h"
#include "../temporary_folder.h"

namespace torch = tensora;

namespace tensora::nn {
namespace {

using testing::TemporaryFolder;

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor input,
                               torch::Tensor weight, torch::Tensor bias = torch::Tensor()) {
    ctx->save_for_backward({input, weight, bias});
    auto output = input.mm(weight.t());
    if (bias.defined()) output += bias.unsqueeze(0).expand_as(output);
    return output;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    torch::Tensor grad_bias;
    if (saved[2].defined()) grad_bias = grads[0].sum(0);
    return {grads[0].mm(saved[1]), grads[0].t().mm(saved[0]), grad_bias};
  }
};

struct Power : torch::autograd::Function<Power> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const torch::Tensor& x, int64_t n, double factor) {
    ctx->saved_data["n"] = n;
    ctx->saved_data["factor"] = factor;
    ctx->save_for_backward({x});
    const torch::Tensor sign = x.sign();
    ctx->mark_non_differentiable({sign});
    return {x.pow(n) * factor, sign};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const int64_t n = ctx->saved_data["n"].toInt();
    EXPECT_TRUE(ctx->needs_input_grad(0));
    const auto x = ctx->get_saved_variables()[0];
    return {grads[0] * x.pow(n - 1) * static_cast<double>(n) * ctx->saved_data["factor"].toDouble(),
            torch::Tensor(), torch::Tensor()};
  }
};

TEST(LibTorch, FunctionsWithAContext) {
  const auto x = torch::randn({2, 3}).requires_grad_(), w = torch::randn({4, 3}).requires_grad_(),
             b = torch::zeros({4}).requires_grad_();
  LinearFunction::apply(x, w).sum().backward();  // three gradients for two arguments
  EXPECT_TRUE(allclose(x.grad(), w.sum(0).expand({2, 3})));
  EXPECT_TRUE(allclose(w.grad(), x.sum(0).expand({4, 3})));
  LinearFunction::apply(x, w, b).sum().backward();
  EXPECT_TRUE(allclose(b.grad(), full({4}, 2.0)));

  const auto y = torch::tensor({2.0, -3.0}).requires_grad_();
  const auto found = Power::apply(y, 3, 0.5);
  EXPECT_FALSE(found[1].requires_grad());
  // Its backward consists of ops, so that it can be differentiated again.
  const auto first =
      torch::autograd::grad({found[0].sum()}, {y}, {}, torch::nullopt, /*create_graph=*/true);
  EXPECT_TRUE(allclose(first[0], torch::tensor({6.0, 13.5})));
  first[0].sum().backward();
  EXPECT_TRUE(allclose(y.grad(), torch::tensor({6.0, -9.0})));
}

TEST(LibTorch, SaveAndLoad) {
  const TemporaryFolder folder;
  const std::string path = folder.path("checkpoint");  // any name
  const auto t = torch::randn({2, 3});
  torch::save(t, path);
  torch::Tensor back;
  torch::load(back, path);
  EXPECT_TRUE(torch::equal(t, back));

  torch::save(std::vector<torch::Tensor>{t, t + 1}, path);
  std::vector<torch::Tensor> list(5);
  torch::load(list, path);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(torch::equal(list[1], t + 1));

  torch::nn::Linear m(3, 2), n(3, 2);
  torch::save(m, path);
  torch::load(n, path);
  EXPECT_TRUE(torch::equal(m->weight, n->weight));
  const auto shared = std::make_shared<torch::nn::Linear>(3, 2);
  torch::load(shared, path);
  EXPECT_TRUE(torch::equal(m->bias, shared->bias));
  torch::save(shared, path);
  EXPECT_THROW(torch::load(back, path), torch::Error);

  torch::optim::Adam first(m->parameters(), 1e-2), second(n->parameters(), 1e-3);
  m(t).sum().backward();
  first.step();
  torch::save(first, path);
  torch::load(second, path);
  EXPECT_EQ(second.param_groups()[0].lr(), 1e-2);
  EXPECT_TRUE(second.has_state(n->weight));
}

TEST(LibTorch, OptimizersTakeALearningRate) {
  torch::nn::Linear m(3, 2);
  EXPECT_EQ(torch::optim::SGD(m->parameters(), 0.25).param_groups()[0].lr(), 0.25);
  EXPECT_EQ(torch::optim::SGD(m->parameters(), 0.25f).param_groups()[0].lr(), 0.25);
  EXPECT_EQ(torch::optim::Adam(m->parameters(), 0.5).param_groups()[0].lr(), 0.5);
  EXPECT_EQ(torch::optim::AdamW(m->parameters(), 0.5).param_groups()[0].number("weight_decay"),
            1e-2);
  EXPECT_EQ(torch::optim::RMSprop(m->parameters(), 0.5).param_groups()[0].lr(), 0.5);
  EXPECT_EQ(torch::optim::Adagrad(m->parameters(), 0.5).param_groups()[0].lr(), 0.5);
  // Empty braces mean the defaults, not a rate of zero.
  EXPECT_EQ(torch::optim::SGD(m->parameters(), {}).param_groups()[0].lr(), 1e-3);
  EXPECT_EQ(torch::cuda::is_available(), torch::cuda::unavailable_reason().empty());
}

}  // namespace
}  // namespace tensora::nn
