// torch::autograd.
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

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
  EXPECT_TRUE(torch::allclose(x.grad(), w.sum(0).expand({2, 3})));
  EXPECT_TRUE(torch::allclose(w.grad(), x.sum(0).expand({4, 3})));
  LinearFunction::apply(x, w, b).sum().backward();
  EXPECT_TRUE(torch::allclose(b.grad(), torch::full({4}, 2.0)));

  const auto y = torch::tensor({2.0, -3.0}).requires_grad_();
  const auto found = Power::apply(y, 3, 0.5);
  EXPECT_FALSE(found[1].requires_grad());
  // Its backward consists of ops, so that it can be differentiated again.
  const auto first =
      torch::autograd::grad({found[0].sum()}, {y}, {}, torch::nullopt, /*create_graph=*/true);
  EXPECT_TRUE(torch::allclose(first[0], torch::tensor({6.0, 13.5})));
  first[0].sum().backward();
  EXPECT_TRUE(torch::allclose(y.grad(), torch::tensor({6.0, -9.0})));
}

TEST(LibTorch, BackwardOfSomeInputs) {
  const auto x = torch::ones({2}).requires_grad_(), y = torch::ones({2}).requires_grad_();
  const auto loss = (x * 2 + y * 3).sum();
  torch::autograd::backward({loss}, {}, /*retain_graph=*/true, false, {x});
  torch::autograd::backward({loss}, {}, /*retain_graph=*/true, false, {x});
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 4.0)));
  EXPECT_FALSE(y.grad().defined());
}

}  // namespace
