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

struct Doubled : torch::autograd::Function<Doubled> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor a,
                               torch::Tensor b) {
    a.data_ptr<float>()[0] = 2;
    ctx->mark_dirty({a});
    ctx->save_for_backward({a, b});
    return a;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list grads) {
    EXPECT_EQ(ctx->get_saved_variables().size(), 2u);
    EXPECT_TRUE(ctx->needs_input_grad(0));
    EXPECT_EQ(ctx->needs_input_grad({{0, 1}, {1, 2}}), true);
    b_needed = ctx->needs_input_grad(1);
    return {grads[0] * 2, torch::Tensor()};
  }
  static inline bool b_needed = false;
};

TEST(LibTorch, WritesAndGradientsThatAreOfUse) {
  const auto leaf = torch::zeros({2}).requires_grad_(), b = torch::zeros({2}).requires_grad_();
  const auto a = leaf.clone();
  const auto version = a._version();
  const auto out = Doubled::apply(a, b);
  EXPECT_GT(a._version(), version);
  EXPECT_EQ(out.grad_fn()->name(), "Doubled");
  const auto found = torch::autograd::grad({out.sum()}, {leaf}, {}, /*retain_graph=*/true);
  EXPECT_TRUE(torch::equal(found[0], torch::full({2}, 2.f)));
  EXPECT_FALSE(Doubled::b_needed);  // only the gradient of `leaf` was asked for
  out.sum().backward();
  EXPECT_TRUE(Doubled::b_needed);
}

TEST(LibTorch, BackwardOfSomeInputs) {
  const auto x = torch::ones({2}).requires_grad_(), y = torch::ones({2}).requires_grad_();
  const auto loss = (x * 2 + y * 3).sum();
  torch::autograd::backward({loss}, {}, /*retain_graph=*/true, false, {x});
  torch::autograd::backward({loss}, {}, /*retain_graph=*/true, false, {x});
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 4.0)));
  EXPECT_FALSE(y.grad().defined());
}

TEST(LibTorch, GradientsOfTensors) {
  const auto x = torch::ones({2}).requires_grad_(), y = torch::ones({2}).requires_grad_();
  EXPECT_FALSE(x.mutable_grad().defined());
  x.mutable_grad() = torch::full({2}, 5.0);
  const auto z = x * x + x * y;
  z.retain_grad();
  EXPECT_TRUE(z.retains_grad());
  EXPECT_EQ(z.output_nr(), 0u);
  int calls = 0;
  const auto hook =
      z.register_hook([&](torch::Tensor grad) { calls += static_cast<int>(grad.numel()); });
  z.backward(torch::ones({2}), /*retain_graph=*/true, /*create_graph=*/false, {x});
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 8.0)));
  EXPECT_FALSE(y.grad().defined());
  EXPECT_EQ(calls, 2);
  z.remove_hook(hook);
  z.backward(torch::ones({2}), torch::nullopt, /*create_graph=*/true);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(torch::equal(y.grad(), torch::ones({2})));
  EXPECT_TRUE(torch::equal(z.grad(), torch::full({2}, 2.0)));  // of both
  EXPECT_THROW(z.backward(torch::ones({2}), false, false, std::vector<torch::Tensor>()),
               c10::Error);
  for (const auto& each : {x, y, z})
    each.mutable_grad().reset();  // their history holds the tensors
}

TEST(LibTorch, MethodsOfTensors) {
  auto x = torch::zeros({4});
  const std::vector<torch::indexing::TensorIndex> where{torch::tensor({0, 0, 2})};
  x.index_put_(where, torch::tensor({1.f}), /*accumulate=*/true);
  x.index_put_({torch::indexing::Slice(3)}, torch::tensor({7.f}), /*accumulate=*/false);
  EXPECT_TRUE(torch::equal(x, torch::tensor({2.f, 0.f, 1.f, 7.f})));
  x.index_put_(where, 5);
  EXPECT_EQ(x[2].item<float>(), 5);
  EXPECT_EQ(x.toType(torch::kInt).scalar_type(), at::ScalarType::Int);
  EXPECT_EQ(x.storage().nbytes(), 16u);
  static_cast<float*>(x.storage().mutable_data())[1] = 9;
  EXPECT_EQ(x[1].item<float>(), 9);
  const auto random = torch::empty({64}).random_(3);
  EXPECT_TRUE((random >= 0).logical_and(random < 3).all().item<bool>());
  const auto version = x._version();
  x.add_(1);
  EXPECT_EQ(x._version(), version + 1);
  EXPECT_NE(x.unsafeGetTensorImpl(), nullptr);
  EXPECT_TRUE(x.tensor_data().shares_storage(x));
  x.reset();
  EXPECT_FALSE(x.defined());
}

}  // namespace
