#include "tensora/autograd/history.h"
#include "tensora/dispatch/autocast_call.h"

#include <thread>

#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/function.h"
#include "tests/amp/autocast_table.h"

namespace tensora::testing {
namespace {

TEST(Autocast, ResultsHaveTheDtypesOfPyTorch) {
  const autocast half(kBFloat16);
  for (const AutocastRow& row : autocast_table()) {
    DType found = kBool;
    EXPECT_EQ(error_of([&] { found = row.run("cpu").dtype(); }), "") << row.name;
    EXPECT_EQ(found, row.cpu) << row.name;
  }
}

TEST(Autocast, GradientsFlowThroughEveryRow) {
  for (const AutocastRow& row : autocast_table()) {
    const Tensor w = ones({}, {.requires_grad = true});
    const autocast half(kBFloat16);
    EXPECT_EQ(error_of([&] { (row.run("cpu") * w).sum().backward(); }), "") << row.name;
    EXPECT_TRUE(w.grad().defined() && w.grad().dtype() == kFloat32) << row.name;
  }
}

TEST(Autocast, IsOnForTheDevicesThatItNames) {
  const Tensor a = ones({2, 2});
  {
    const autocast other({.device = "cuda", .dtype = kFloat16});
    EXPECT_TRUE(is_autocast_enabled(DeviceType::cuda));
    EXPECT_FALSE(is_autocast_enabled(DeviceType::cpu));
    EXPECT_EQ(matmul(a, a).dtype(), kFloat32);
    const autocast here({.device = "cpu"});
    EXPECT_EQ(matmul(a, a).dtype(), kBFloat16);
    EXPECT_EQ(autocast_dtype(DeviceType::cuda), kFloat16);
    const autocast off({.device = "cuda", .enabled = false});
    EXPECT_EQ(matmul(a, a).dtype(), kBFloat16);
    EXPECT_FALSE(is_autocast_enabled(DeviceType::cuda));
  }
  EXPECT_FALSE(is_autocast_enabled());
  const autocast half(kFloat16);
  EXPECT_EQ(matmul(a, a).dtype(), kFloat16);
  std::thread([] { EXPECT_FALSE(is_autocast_enabled()); }).join();
}

TEST(Autocast, BinaryCrossEntropyIsRefusedWithAHint) {
  const Tensor p = full({3}, 0.5), y = ones({3});
  const Arg args[] = {p, y};
  EXPECT_EQ(binary_cross_entropy(p, y).dtype(), kFloat32);
  const autocast half;
  EXPECT_EQ(binary_cross_entropy(p.to(kBFloat16), y).dtype(), kFloat32);  // on the CPU
  const std::string error =
      error_of([&] { AutocastCall("binary_cross_entropy", Autocast::refused, args); });
  EXPECT_TRUE(contains(error, "use binary_cross_entropy_with_logits")) << error;
}

TEST(Autocast, InPlaceOpsKeepTheirDtype) {
  const autocast half;
  const Tensor a = ones({2, 2});
  a.addmm_(a, a);
  EXPECT_EQ(a.dtype(), kFloat32);
}

TEST(Autocast, MixedOperandsMeet) {
  const autocast half;
  const Tensor a = ones({2, 2}), b = ones({2, 2}, {.dtype = kBFloat16});
  EXPECT_EQ(matmul(a, b).dtype(), kBFloat16);
  EXPECT_EQ(einsum("ij,jk->ik", {a, b}).dtype(), kBFloat16);
}

// ---- casts of parameters
// -------------------------------------------------------------------------

struct Net {
  Tensor weight = randn({4, 4}, {.requires_grad = true});
  Tensor operator()(const Tensor& x) const { return linear(x, weight); }
};

// The graph node of the weight's cast in the history of linear(x, weight).
const Node* cast_node(const Tensor& y) {
  const Node* node = gradient_edge(y).node.get();
  while (node && node->name() != "cast") {
    const Node* next = nullptr;
    for (const Edge& edge : node->edges())
      if (edge.node && !edge.node->is_leaf()) next = edge.node.get();
    node = next;
  }
  return node;
}

TEST(AutocastCache, CastsAParameterOnceInAScope) {
  const Net net;
  const Tensor x = randn({2, 4});
  const autocast half;
  const Tensor a = net(x), b = net(x);
  ASSERT_NE(cast_node(a), nullptr);
  EXPECT_EQ(cast_node(a), cast_node(b));
  {
    const autocast inner(kBFloat16);
    EXPECT_EQ(cast_node(net(x)), cast_node(a));
    const autocast off({.enabled = false});
    EXPECT_EQ(cast_node(net(x)), nullptr);
  }
  EXPECT_EQ(cast_node(net(x)), cast_node(a));
}

TEST(AutocastCache, ServesLayersOfEveryKind) {
  const auto parameter = [](const Shape& sizes) { return randn(sizes).requires_grad_(); };
  const Tensor conv = parameter({2, 2, 3, 3}), image = randn({1, 2, 5, 5});
  const Tensor w = parameter({4, 4}), x = randn({2, 4});
  const autocast half;
  const auto same = [](const Tensor& a, const Tensor& b) {
    return cast_node(a) != nullptr && cast_node(a) == cast_node(b);
  };
  EXPECT_TRUE(same(conv2d(image, conv), conv2d(image, conv)));
  EXPECT_TRUE(same(matmul(x, w), linear(x, w)));
  EXPECT_TRUE(same(linear_activation(x, w, {}, "gelu"), linear(x, w)));
  EXPECT_TRUE(same(einsum("ij,jk->ik", {x, w}), matmul(x, w)));
}

TEST(AutocastCache, IsTheThreadsOwn) {
  const Net net;
  const Tensor x = ones({1, 4});
  const auto train = [&] {
    for (int i = 0; i < 50; ++i) {
      const autocast half;
      net(x).sum().backward();
    }
  };
  std::thread other(train);
  train();
  other.join();
  EXPECT_EQ(values(net.weight.grad()), Values(16, 100.0));
}

TEST(AutocastCache, CastsAgainInTheNextScope) {
  const Net net;
  const Tensor x = randn({2, 4});
  Tensor first;
  {
    const autocast half;
    first = net(x);
  }
  const autocast half;
  EXPECT_NE(cast_node(net(x)), cast_node(first));
}

TEST(AutocastCache, CanBeTurnedOff) {
  const Net net;
  const Tensor x = randn({2, 4});
  const autocast half({.cache_enabled = false});
  EXPECT_NE(cast_node(net(x)), cast_node(net(x)));
}

TEST(AutocastCache, AParameterThatChangesIsCastAgain) {
  const Net net;
  const Tensor x = ones({1, 4});
  const autocast half;
  const Tensor before = net(x);
  {
    const no_grad silent;
    net.weight.fill_(2);
  }
  const Tensor after = net(x);
  EXPECT_EQ(values(after), (Values{8, 8, 8, 8}));
  {
    const no_grad silent;
    net.weight.detach().fill_(3);  // through another tensor of the same memory
  }
  EXPECT_EQ(values(net(x)), (Values{12, 12, 12, 12}));
  net.weight.set_data(full({4, 4}, 5.0));
  EXPECT_EQ(values(net(x)), (Values{20, 20, 20, 20}));
}

TEST(AutocastCache, ACastWithoutHistoryIsNotUsedForTraining) {
  const Net net;
  const Tensor x = randn({2, 4});
  const autocast half;
  {
    const no_grad silent;
    EXPECT_FALSE(net(x).requires_grad());
  }
  {
    const inference_mode silent;
    EXPECT_FALSE(net(x).requires_grad());
  }
  net(x).sum().backward();
  EXPECT_TRUE(net.weight.grad().defined());
  const no_grad silent;  // and one with history serves both
  EXPECT_FALSE(net(x).requires_grad());
}

TEST(AutocastCache, GradientsAreThoseWithoutIt) {
  const Tensor x = randn({3, 4});
  const auto gradient = [&](bool cached, const Tensor& data) {
    const Tensor w = data.detach().clone().requires_grad_();
    const autocast half({.cache_enabled = cached});
    linear(relu(linear(x, w)), w).sum().backward();
    return w.grad();
  };
  const Tensor data = randn({4, 4});
  EXPECT_TRUE(allclose(gradient(true, data), gradient(false, data), 0.02, 0.02));
}

TEST(AutocastCache, SeveralBackwardsInOneScopeAccumulate) {
  const Net net;
  const Tensor x = ones({1, 4});
  const autocast half;
  for (int i = 0; i < 3; ++i) net(x).sum().backward();
  EXPECT_EQ(values(net.weight.grad()), Values(16, 3.0));
}

TEST(AutocastCache, IsNotKeptForTensorsThatNeedNoGradient) {
  const Tensor w = randn({4, 4}), x = randn({2, 4}, {.requires_grad = true});
  const autocast half;
  const Tensor y = linear(x, w);
  const uint32_t before = w.impl().use_count();
  linear(x, w);
  EXPECT_EQ(w.impl().use_count(), before);
}

TEST(AutocastCache, DoesNotKeepWhatTheProgramHasFreed) {
  const Tensor x = randn({2, 4});
  const autocast half;
  IntrusivePtr<Storage> watched;
  {
    const Net net;
    watched = net.weight.impl().storage;
    net(x);
  }
  for (int i = 0; i < 1000; ++i) Net()(x);
  EXPECT_EQ(watched->use_count(), 1u);
}

TEST(AutocastCache, AToggledParameterGetsItsGradient) {
  const Net net;
  const Tensor x = ones({1, 4});
  const autocast half;
  net(x);
  net.weight.requires_grad_(false);
  net(x);
  net.weight.requires_grad_(true);
  net(x).sum().backward();
  EXPECT_EQ(values(net.weight.grad()), Values(16, 1.0));
}

// ---- with checkpoints and custom functions
// -------------------------------------------------------

TEST(AutocastCheckpoint, TheSecondRunIsCastAsTheFirst) {
  for (const bool inside : {false, true}) {
    const Net net;
    const Tensor x = randn({2, 4}, {.requires_grad = true});
    std::vector<DType> seen;
    const auto body = [&](const Tensor& in) {
      Tensor y = net(relu(net(in)));
      seen.push_back(y.dtype());
      return y;
    };
    Tensor expected;
    {
      const autocast half;
      expected = grad(body(x).sum(), {net.weight})[0];
    }
    seen.clear();
    std::optional<autocast> scope(std::in_place);
    const Tensor before = net(x);  // in the cache, and not to be met in the body
    const Tensor loss = checkpoint(body, x).sum() + before.sum() * 0;
    if (!inside) scope.reset();
    loss.backward();
    EXPECT_EQ(seen, (std::vector<DType>{kBFloat16, kBFloat16}));
    EXPECT_TRUE(allclose(net.weight.grad(), expected, 0.02, 0.02));
  }
}

TEST(AutocastCheckpoint, SequencesKeepRandomNumbersAndCasts) {
  const Net first, second, third, fourth;
  const Tensor x = randn({8, 4}, {.requires_grad = true});
  int runs = 0;
  std::vector<std::function<Tensor(const Tensor&)>> functions;
  for (const Net* net : {&first, &second, &third, &fourth})
    functions.push_back([net, &runs](const Tensor& in) {
      ++runs;
      return dropout((*net)(in), 0.5, true);
    });
  const auto gradients = [&](int64_t segments) {
    manual_seed(7);
    runs = 0;
    Tensor y = x;
    {
      const autocast half;
      if (segments == 0)
        for (const auto& function : functions) y = function(y);
      else
        y = checkpoint_sequential(functions, segments, x);
    }
    EXPECT_EQ(y.dtype(), kBFloat16);
    return grad(y.sum(), {x, first.weight, fourth.weight});
  };
  const std::vector<Tensor> expected = gradients(0);
  for (const int64_t segments : {1, 2, 3, 4}) {
    const std::vector<Tensor> found = gradients(segments);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(equal(found[i], expected[i])) << segments;
    // The last segment is not repeated, as in PyTorch.
    const int64_t length = 4 / segments;
    EXPECT_EQ(runs, 4 + length * (segments - 1)) << segments;
  }
  EXPECT_TRUE(contains(error_of([&] { checkpoint_sequential(functions, 0, x); }), "segments"));
  EXPECT_TRUE(contains(error_of([&] { checkpoint_sequential(functions, 5, x); }), "segments"));
}

struct InFullPrecision : Function<InFullPrecision> {
  static Tensor forward(Context& context, const Tensor& x, const Tensor& w) {
    const autocast off({.enabled = false});
    context.save_for_backward({x, w});
    return matmul(x.to(kFloat32), w);
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const autocast off({.enabled = false});
    const TensorList saved = context.saved_tensors();
    EXPECT_EQ(grads[0].dtype(), kFloat32);
    return {matmul(grads[0], saved[1].t()), matmul(saved[0].t().to(kFloat32), grads[0])};
  }
};

TEST(AutocastFunction, ACustomFunctionMayLeaveIt) {
  const Tensor x = randn({2, 4}, {.requires_grad = true}), w = randn({4, 4}).requires_grad_();
  const autocast half;
  const Tensor y = InFullPrecision::apply(x, w);
  EXPECT_EQ(y.dtype(), kFloat32);
  y.sum().backward();
  const autocast off({.enabled = false});
  EXPECT_TRUE(allclose(y, matmul(x, w)));
  EXPECT_TRUE(allclose(w.grad(), matmul(x.t(), ones_like(y))));
}

}  // namespace
}  // namespace tensora::testing
