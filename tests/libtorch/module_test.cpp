// torch::nn, torch::optim and files, as LibTorch programs use them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <sstream>

namespace {

namespace F = torch::nn::functional;

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  explicit NetImpl(int64_t width) : width(width) { reset(); }
  void reset() override {
    fc1 = register_module("fc1", torch::nn::Linear(4, width));
    fc2 = register_module("fc2", torch::nn::Linear(torch::nn::LinearOptions(width, 2).bias(false)));
    scale = register_parameter("scale", torch::ones({2}));
    steps = register_buffer("steps", torch::zeros({}, torch::kLong));
  }
  torch::Tensor forward(torch::Tensor x) { return fc2(torch::relu(fc1->forward(x))) * scale; }
  int64_t width;
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
  torch::Tensor scale, steps;
};
TORCH_MODULE(Net);

TEST(LibTorchModule, HoldersParametersAndText) {
  Net empty{nullptr};
  EXPECT_TRUE(empty.is_empty());
  EXPECT_THROW(empty->forward(torch::ones({1, 4})), c10::Error);

  Net net(8);
  std::vector<std::string> names;
  for (const auto& item : net->named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names, (std::vector<std::string>{"scale", "fc1.weight", "fc1.bias", "fc2.weight"}));
  EXPECT_TRUE(net->named_parameters()["fc1.weight"].is_same(net->fc1->weight));
  EXPECT_TRUE(net->parameters()[0].is_same(net->scale));
  EXPECT_EQ(net->named_buffers().size(), 1u);
  EXPECT_EQ(net->modules().size(), 3u);
  EXPECT_EQ(net->named_modules("net")["net.fc2"]->as<torch::nn::Linear>(), net->fc2.get());
  EXPECT_EQ(net->as<torch::nn::Conv2d>(), nullptr);
  EXPECT_EQ(c10::str(*net->fc2), "torch::nn::Linear(in_features=8, out_features=2, bias=false)");
  net->eval();
  EXPECT_FALSE(net->fc1->is_training());
  net->to(torch::kDouble);
  EXPECT_EQ(net->fc1->weight.dtype(), torch::kDouble);
  EXPECT_THROW(net->register_module("fc1", torch::nn::Linear(1, 1)), c10::Error);
  EXPECT_THROW(net->register_module("a.b", torch::nn::Linear(1, 1)), c10::Error);

  int seen = 0;
  net->apply([&](torch::nn::Module& module) { seen += module.as<torch::nn::Linear>() != nullptr; });
  EXPECT_EQ(seen, 2);
}

TEST(LibTorchModule, ClonesHaveTheirOwnParameters) {
  Net net(3);
  const auto x = torch::randn({5, 4});
  auto copy = std::dynamic_pointer_cast<NetImpl>(net->clone());
  EXPECT_TRUE(torch::equal(net(x), copy->forward(x)));
  {
    torch::NoGradGuard no_grad;
    copy->fc1->weight.add_(1);
  }
  EXPECT_FALSE(torch::equal(net->fc1->weight, copy->fc1->weight));
  EXPECT_TRUE(copy->parameters()[1].is_same(copy->fc1->weight));
  torch::nn::Sequential stack(torch::nn::Conv2d(1, 2, 3), torch::nn::BatchNorm2d(2));
  auto twin = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(stack->clone());
  stack->eval();
  twin->eval();
  const auto image = torch::randn({1, 1, 5, 5});
  EXPECT_TRUE(torch::equal(stack->forward(image), twin->forward(image)));
  EXPECT_FALSE(twin->parameters()[0].is_same(stack->parameters()[0]));
}

TEST(LibTorchModule, AnyModuleAndSequential) {
  struct Pair : torch::nn::Module {
    std::tuple<torch::Tensor, int> forward(torch::Tensor x, int n) { return {x * n, n + 1}; }
  };
  torch::nn::AnyModule any(std::make_shared<Pair>());
  const auto [y, n] = any.forward<std::tuple<torch::Tensor, int>>(torch::ones({2}), 3);
  EXPECT_EQ(n, 4);
  EXPECT_TRUE(torch::equal(y, torch::full({2}, 3.0)));
  EXPECT_THROW(any.forward(torch::ones({2})), c10::Error);       // one argument too few
  EXPECT_THROW(any.forward(torch::ones({2}), 3.0), c10::Error);  // not an int
  EXPECT_THROW(any.get<torch::nn::LinearImpl>(), c10::Error);

  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::ReLU(),
                            torch::nn::Functional(torch::sigmoid));
  net->push_back("last", torch::nn::Linear(3, 1));
  EXPECT_EQ(net->forward(torch::ones({2, 4})).sizes(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(net->named_children().keys(), (std::vector<std::string>{"0", "1", "2", "last"}));
  EXPECT_EQ(net->at<torch::nn::LinearImpl>(0).options.out_features(), 3);
}

TEST(LibTorchFunctional, OptionsReachTheFunctions) {
  const auto x = torch::arange(16, torch::kFloat).reshape({1, 1, 4, 4});
  EXPECT_TRUE(torch::equal(F::max_pool2d(x, F::MaxPool2dFuncOptions(2).stride(1)).flatten()[0],
                           torch::tensor(5.0)));
  EXPECT_EQ(F::pad(x, F::PadFuncOptions({1, 1, 0, 0}).mode(torch::kReflect)).size(3), 6);
  EXPECT_EQ(F::interpolate(x, F::InterpolateFuncOptions()
                                  .scale_factor(std::vector<double>{2, 2})
                                  .mode(torch::kBilinear)
                                  .align_corners(true))
                .size(2),
            8);
  EXPECT_EQ(F::mse_loss(x, x + 2, torch::kSum).item<float>(), 64);
  EXPECT_EQ(torch::nn::MSELoss(torch::nn::MSELossOptions(torch::kNone))(x, x + 2).numel(), 16);
  torch::nn::ReLU in_place(torch::nn::ReLUOptions().inplace(true));
  auto negative = torch::full({2}, -1.0);
  in_place(negative);
  EXPECT_EQ(negative.sum().item<double>(), 0);
  torch::nn::Linear layer(2, 2);
  layer->weight = torch::eye(2);  // the member counts
  layer->bias = torch::zeros({2});
  EXPECT_TRUE(torch::equal(layer(torch::ones({1, 2})), torch::ones({1, 2})));
}

TEST(LibTorchOptim, GroupsOptionsAndSchedulers) {
  torch::nn::Linear a(2, 2), b(2, 2);
  torch::optim::SGD sgd({torch::optim::OptimizerParamGroup(a->parameters()),
                         torch::optim::OptimizerParamGroup(
                             b->parameters(), std::make_unique<torch::optim::SGDOptions>(
                                                  torch::optim::SGDOptions(1.0)))},
                        torch::optim::SGDOptions(0.5).momentum(0.9));
  EXPECT_EQ(sgd.size(), 4u);
  for (auto& group : sgd.param_groups())
    static_cast<torch::optim::SGDOptions&>(group.options()).momentum(0);
  const auto before_a = a->weight.detach().clone(), before_b = b->weight.detach().clone();
  (a->weight.sum() + b->weight.sum()).backward();
  sgd.step();
  EXPECT_TRUE(torch::allclose(a->weight, before_a - 0.5));
  EXPECT_TRUE(torch::allclose(b->weight, before_b - 1));
  sgd.zero_grad();
  EXPECT_FALSE(a->weight.grad().defined());

  torch::optim::StepLR scheduler(sgd, /*step_size=*/2, /*gamma=*/0.5);
  for (int i = 0; i < 3; ++i) scheduler.step();
  EXPECT_EQ(sgd.param_groups()[0].options().get_lr(), 0.25);
  torch::optim::Adam adam(a->parameters(), torch::optim::AdamOptions(1e-2).betas({0.5, 0.9}));
  adam.step([&] {
    adam.zero_grad();
    auto loss = a(torch::ones({1, 2})).pow(2).sum();
    loss.backward();
    return loss;
  });
  torch::optim::ReduceLROnPlateauScheduler plateau(
      adam, torch::optim::ReduceLROnPlateauScheduler::min, 0.5f, /*patience=*/0);
  plateau.step(1);
  plateau.step(2);
  EXPECT_EQ(adam.param_groups()[0].options().get_lr(), 5e-3);
}

TEST(LibTorchFiles, ModulesOptimizersAndStreams) {
  Net net(3), other(3);
  std::stringstream stream;
  torch::save(net, stream);
  torch::load(other, stream);
  EXPECT_TRUE(torch::equal(net->fc1->weight, other->fc1->weight));
  EXPECT_TRUE(other->fc1->weight.requires_grad());

  torch::optim::Adam first(net->parameters(), 1e-2), second(other->parameters(), 1e-3);
  net(torch::ones({1, 4})).sum().backward();
  first.step();
  std::stringstream state;
  torch::save(first, state);
  torch::load(second, state);
  EXPECT_EQ(second.param_groups()[0].options().get_lr(), 1e-2);

  std::stringstream list;
  torch::save(std::vector<torch::Tensor>{torch::ones({2}), torch::zeros({3})}, list);
  std::vector<torch::Tensor> tensors;
  torch::load(tensors, list);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[1].numel(), 3);
  const auto value = torch::pickle_load(torch::pickle_save(c10::IValue(torch::ones({4}))));
  EXPECT_EQ(value.toTensor().numel(), 4);
  std::stringstream garbage("no archive");
  EXPECT_THROW(torch::load(tensors, garbage), c10::Error);
}

TEST(LibTorchMacros, ChecksAndDispatch) {
  EXPECT_THROW(TORCH_CHECK(1 + 1 == 3, "sum of ", 2, " numbers"), c10::Error);
  EXPECT_THROW(TORCH_CHECK_INDEX(false, "index"), c10::IndexError);
  const auto x = torch::ones({3}, torch::kDouble);
  double sum = 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sum", [&] {
    for (int64_t i = 0; i < x.numel(); ++i) sum += static_cast<double>(x.data_ptr<scalar_t>()[i]);
  });
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(AT_DISPATCH_ALL_TYPES(torch::kInt, "size", [] { return sizeof(scalar_t); }), 4u);
  EXPECT_THROW(AT_DISPATCH_FLOATING_TYPES(torch::kInt, "sum", [] {}), c10::Error);
  torch::Tensor out = torch::empty({0});
  torch::add_out(out, x, x);
  EXPECT_EQ(out.sum().item<double>(), 6);
  EXPECT_TRUE(torch::allclose(torch::linalg_inv(torch::eye(2) * 2), torch::eye(2) * 0.5));
  EXPECT_EQ(torch::embedding(torch::eye(3), torch::tensor({2})).sizes(),
            (std::vector<int64_t>{1, 3}));
}

TEST(LibTorchFunctional, LossesTakeTheirReductionAsInAten) {
  const torch::Tensor logits = torch::log_softmax(torch::randn({6, 3}), 1);
  const torch::Tensor targets = torch::arange(6) % 3;
  const float sum = torch::nll_loss(logits, targets, {}, torch::Reduction::Sum).item<float>();
  EXPECT_NEAR(sum, 6 * torch::nll_loss(logits, targets).item<float>(), 1e-5);
  EXPECT_LT(torch::nll_loss(logits, targets, {}, torch::Reduction::Sum, 0).item<float>(), sum);
  EXPECT_EQ(torch::mse_loss(logits, logits + 1, torch::Reduction::None).dim(), 2);
}

TEST(LibTorchModule, AdaptiveSoftmaxIsADistribution) {
  torch::manual_seed(0);
  torch::nn::AdaptiveLogSoftmaxWithLoss net(
      torch::nn::AdaptiveLogSoftmaxWithLossOptions(8, 10, {4, 8}).div_value(2).head_bias(true));
  const auto x = torch::randn({6, 8}).requires_grad_();
  const auto y = torch::tensor({0, 3, 4, 7, 8, 9});
  const auto all = net->log_prob(x);
  EXPECT_TRUE(torch::allclose(all.exp().sum(1), torch::ones({6})));
  const auto found = net(x, y);
  EXPECT_TRUE(torch::allclose(found.output, all.gather(1, y.unsqueeze(1)).squeeze(1)));
  EXPECT_NEAR(found.loss, -found.output.mean().item<double>(), 1e-6);
  EXPECT_TRUE(torch::equal(net->predict(x), all.argmax(1)));
  const auto row = net(x[2], y[2]);
  EXPECT_NEAR(row.output.item<double>(), found.output[2].item<double>(), 1e-5);
  found.output.sum().backward();
  EXPECT_GT(x.grad().abs().sum(1).min().item<double>(), 0);
  EXPECT_EQ(net->named_parameters().keys().size(), 6u);  // head.weight, head.bias, 2 per cluster
  EXPECT_THROW(net(x, y + 5), c10::Error);
  EXPECT_THROW(torch::nn::AdaptiveLogSoftmaxWithLoss(8, 10, std::vector<int64_t>{4, 4}),
               c10::Error);
}

TEST(LibTorchFunctional, FunctionsOfAtThatDiffer) {
  const auto x = torch::tensor({-1.0, 2.0});
  EXPECT_TRUE(
      torch::allclose(torch::elu(x, 2, 3, 0.5), torch::tensor({6 * (std::exp(-0.5) - 1), 6.0})));
  torch::nn::Functional zero(torch::elu, /*alpha=*/1, /*scale=*/0, /*input_scale=*/1);
  EXPECT_TRUE(torch::equal(zero(x), torch::zeros({2}, torch::kDouble)));
  const auto p = torch::full({3, 1}, 0.5);
  EXPECT_NEAR(torch::binary_cross_entropy(p, torch::ones({3})).item<double>(), std::log(2), 1e-6);
  const auto rows = torch::arange(6).view({3, 2});
  EXPECT_TRUE(torch::equal(at::index(rows, {torch::Tensor(), torch::tensor({1})}),
                           torch::tensor({{1}, {3}, {5}})));
  at::index_put_(rows, {torch::tensor({0, 0})}, torch::tensor({10}), /*accumulate=*/true);
  EXPECT_TRUE(torch::equal(rows[0], torch::tensor({20, 21})));
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(3, 4).proj_size(2));
  EXPECT_EQ(lstm->options_base.proj_size(), 2);
  EXPECT_THROW(torch::nn::GRU(torch::nn::GRUOptions(1, 1).num_layers(0)), c10::Error);
}

}  // namespace
