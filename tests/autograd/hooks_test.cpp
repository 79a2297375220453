#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/node_hooks.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

TEST(Hooks, OnALeafSeesTheWholeGradientOnce) {
  const Tensor x = leaf({1, 2});
  int calls = 0;
  Values seen;
  x.register_hook([&](const Tensor& grad) {
    ++calls;
    seen = values(grad);
    return Tensor();
  });
  (x * 2 + x * 3).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, (Values{5, 5}));
  EXPECT_EQ(values(x.grad()), (Values{5, 5}));
}

TEST(Hooks, ReplaceTheGradient) {
  const Tensor x = leaf({1, 2});
  x.register_hook([](const Tensor& grad) { return grad * 10; });
  const Tensor y = x * 3;
  y.register_hook([](const Tensor& grad) { return grad + 1; });
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{60, 60}));
}

TEST(Hooks, RunInTheOrderOfRegistration) {
  const Tensor x = leaf({1});
  const Tensor y = x * 1;
  y.register_hook([](const Tensor& grad) { return grad + 1; });
  y.register_hook([](const Tensor& grad) { return grad * 10; });
  y.backward();
  EXPECT_EQ(values(x.grad()), (Values{20}));
}

TEST(Hooks, OnANodeSeeAllItsGradients) {
  const Tensor x = leaf({1, 2, 4});
  {
    const auto [variance, mean] = var_mean(x, 0);
    Node& node = *mean.grad_fn();
    add_hook_before(node, [](const Tensors& grads) {
      EXPECT_EQ(grads.size(), 2u);
      return Tensors{grads[0] * 0, grads[1] * 3};
    });
    const uint64_t unwanted = add_hook_after(node, [](const Tensors&, const Tensors&) -> Tensors {
      ADD_FAILURE() << "removed hooks are not called";
      return {};
    });
    add_hook_after(node, [](const Tensors& inputs, const Tensors& outputs) {
      EXPECT_EQ(values(outputs[1]), (Values{3}));
      return Tensors{inputs[0] * 2};
    });
    remove_node_hook(node, unwanted);
    EXPECT_TRUE(has_node_hooks(node));
    (variance + mean).backward();
  }
  EXPECT_EQ(values(x.grad()), (Values{2, 2, 2}));
  EXPECT_EQ(detail::hooked_nodes.load(), 0);  // the node is gone
}

TEST(Hooks, OnNodesMayRemoveEachOther) {
  const Tensor y = leaf({1}) * 2;
  Node& node = *y.grad_fn();
  uint64_t second = 0;
  int calls = 0;
  add_hook_before(node, [&](const Tensors&) -> Tensors {
    remove_node_hook(node, second);
    return {};
  });
  second = add_hook_before(node, [&](const Tensors&) -> Tensors {
    ++calls;
    return {};
  });
  y.backward();
  EXPECT_EQ(calls, 0);
  EXPECT_NE(error_of([&] { add_hook_before(*gradient_edge(leaf({1})).node, nullptr); }), "");
}

TEST(Hooks, CanBeRemoved) {
  const Tensor x = leaf({1});
  const auto remove = x.register_hook([](const Tensor& grad) { return grad * 100; });
  remove();
  remove();  // twice is harmless
  (x * 2).backward();
  EXPECT_EQ(values(x.grad()), (Values{2}));
}

TEST(Hooks, OnOneOfSeveralOutputs) {
  const Tensor x = leaf({3, 1, 2, 4}).reshape({2, 2});
  x.retain_grad();
  const auto [largest, index] = max(x, 1);
  int calls = 0;
  largest.register_hook([&](const Tensor& grad) {
    ++calls;
    return grad * 2;
  });
  largest.sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (Values{2, 0, 0, 2}));
}

TEST(Hooks, TakePartInGrad) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  y.register_hook([](const Tensor& grad) { return grad * 2; });
  EXPECT_EQ(values(grad(y * 5, {y})[0]), (Values{10}));
  EXPECT_EQ(values(grad(y * 5, {x})[0]), (Values{30}));
}

TEST(Hooks, NeedAGradient) {
  EXPECT_TRUE(contains(
      error_of([] { constant({1}).register_hook([](const Tensor&) { return Tensor(); }); }),
      "does not require"));
}

TEST(Hooks, WhatReplacesAGradientMustLookLikeIt) {
  const auto error_with = [](std::function<Tensor(const Tensor&)> hook) {
    const Tensor x = leaf({1, 2});
    const Tensor y = x * 2;
    y.register_hook(std::move(hook));
    std::string text = error_of([&] { y.sum().backward(); });
    EXPECT_FALSE(x.grad().defined());
    return text;
  };
  const std::string shape = error_with([](const Tensor& grad) { return grad.narrow(0, 0, 1); });
  EXPECT_TRUE(contains(shape, "'mul'") && contains(shape, "[2]") && contains(shape, "[1]"))
      << shape;
  const std::string dtype = error_with([](const Tensor& grad) { return grad.to(kFloat32); });
  EXPECT_TRUE(contains(dtype, "float64") && contains(dtype, "float32")) << dtype;
  const std::string device =
      error_with([](const Tensor&) { return zeros({2}, {.dtype = kFloat64, .device = "meta"}); });
  EXPECT_TRUE(contains(device, "meta")) << device;
}

TEST(PostAccumulateHooks, OncePerBackwardWithTheLeaf) {
  const Tensor x = leaf({1});
  std::vector<Values> seen;
  const auto remove = x.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
    EXPECT_TRUE(leaf.requires_grad() && leaf.is_leaf() && leaf.shares_storage(x));
    seen.push_back(values(leaf.grad()));
  });
  (x * 2 + x * 3).backward();
  (x * 1).backward();
  EXPECT_EQ(seen, (std::vector<Values>{{5}, {6}}));
  grad(x * 4, {x});  // which accumulates nothing
  remove();
  (x * 1).backward();
  EXPECT_EQ(seen.size(), 2u);
}

TEST(PostAccumulateHooks, MayResetAndReplaceTheGradient) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  x.register_post_accumulate_grad_hook([](const Tensor& leaf) {
    const Tensor doubled = leaf.grad() * 2;
    leaf.set_grad({});
    EXPECT_FALSE(leaf.grad().defined());
    leaf.set_grad(doubled);
  });
  w.register_post_accumulate_grad_hook([](const Tensor& leaf) { leaf.set_grad({}); });
  (x * w).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{6, 8}));
  EXPECT_FALSE(w.grad().defined());
}

TEST(PostAccumulateHooks, OptimizerInBackward) {
  const Tensor w = leaf({1, 2});
  w.register_post_accumulate_grad_hook([](const Tensor& leaf) {
    leaf.sub_(leaf.grad() * 0.5);
    leaf.set_grad({});
  });
  (w * 2).sum().backward();
  EXPECT_EQ(values(w), (Values{0, 1}));
  EXPECT_FALSE(w.grad().defined());
}

TEST(PostAccumulateHooks, RunThoughTheHandleIsGone) {
  Values seen;
  Tensor y;
  {
    const Tensor x = leaf({1, 2});
    x.register_post_accumulate_grad_hook([&](const Tensor& leaf) { seen = values(leaf.grad()); });
    y = (x * 3).sum();
  }
  y.backward();
  EXPECT_EQ(seen, (Values{3, 3}));
}

TEST(PostAccumulateHooks, NeedALeaf) {
  const auto nothing = [](const Tensor&) {};
  EXPECT_TRUE(contains(error_of([&] { constant({1}).register_post_accumulate_grad_hook(nothing); }),
                       "does not"));
  EXPECT_TRUE(contains(
      error_of([&] { (leaf({1}) * 2).register_post_accumulate_grad_hook(nothing); }), "leaf"));
}

TEST(PostAccumulateHooks, LeaveNothingBehind) {
  const int64_t before = AccumulateGrad::hook_count();
  const uint64_t memory = memory_stats().allocated;
  {
    const Tensor x = leaf({1}), y = leaf({1});
    x.register_post_accumulate_grad_hook([](const Tensor&) {});
    y.register_hook([](const Tensor&) { return Tensor(); })();
    x.register_hook([](const Tensor&) { return Tensor(); });
    EXPECT_EQ(AccumulateGrad::hook_count(), before + 2);
    (x * y).backward();
  }
  EXPECT_EQ(AccumulateGrad::hook_count(), before);
  EXPECT_EQ(memory_stats().allocated, memory);
}

TEST(Callbacks, RunOnceAtTheEndOfBackward) {
  const Tensor x = leaf({1}), w = leaf({2});
  std::vector<std::string> log;
  w.register_post_accumulate_grad_hook([&](const Tensor&) {
    queue_callback([&] {
      log.push_back("end");
      EXPECT_TRUE(x.grad().defined() && w.grad().defined());
      EXPECT_FALSE(is_grad_enabled());
      queue_callback([&] { log.push_back("after the end"); });
    });
    log.push_back("w");
  });
  x.register_post_accumulate_grad_hook([&](const Tensor&) { log.push_back("x"); });
  (x * 2 * w).backward();
  EXPECT_EQ(log, (std::vector<std::string>{"w", "x", "end", "after the end"}));
}

TEST(Callbacks, OfACheckpointWaitForTheWhole) {
  const Tensor x = leaf({1});
  std::vector<std::string> log;
  const Tensor y = x * 2;
  y.register_hook([&](const Tensor&) {
    log.push_back("y");
    return Tensor();
  });
  const auto body = [&](const Tensor& in) {
    const Tensor z = in * 3;
    z.register_hook([&](const Tensor&) {
      queue_callback([&] { log.push_back("end"); });
      return Tensor();
    });
    return z * 1;
  };
  checkpoint(body, y).backward();
  EXPECT_EQ(log, (std::vector<std::string>{"y", "end"}));
}

TEST(Callbacks, AreDroppedWithAFailedBackwardAndNeedOne) {
  EXPECT_TRUE(contains(error_of([] { queue_callback([] {}); }), "no backward is running"));
  const Tensor x = leaf({1});
  const Tensor y = x * 2;
  y.register_hook([](const Tensor&) -> Tensor {
    queue_callback([] { ADD_FAILURE(); });
    fail("enough");
  });
  EXPECT_TRUE(contains(error_of([&] { y.backward(); }), "enough"));
  EXPECT_FALSE(error_of([] { queue_callback([] {}); }).empty());
}

TEST(RetainGrad, KeepsTheGradientOfAnIntermediate) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  y.retain_grad();
  y.retain_grad();
  (y * y).backward();
  EXPECT_EQ(values(y.grad()), (Values{12}));
  EXPECT_EQ(values(x.grad()), (Values{36}));
}

TEST(RetainGrad, SeesWhatHooksReturn) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  y.retain_grad();
  y.register_hook([](const Tensor& grad) { return grad * 2; });
  y.backward();
  EXPECT_EQ(values(y.grad()), (Values{2}));
}

TEST(RetainGrad, FollowsInPlaceChanges) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  y.retain_grad();
  y.mul_(5);
  (y * 2).backward();
  EXPECT_EQ(values(y.grad()), (Values{2}));
  EXPECT_EQ(values(x.grad()), (Values{30}));
}

TEST(RetainGrad, WithoutItIntermediatesHaveNone) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  y.backward();
  EXPECT_FALSE(y.grad().defined());
  EXPECT_TRUE(contains(error_of([] { constant({1}).retain_grad(); }), "does not require"));
}

TEST(GradMode, NoGradRecordsNothing) {
  const Tensor x = leaf({1});
  {
    const no_grad silent;
    EXPECT_FALSE((x * 2).requires_grad());
    {
      const enable_grad again;
      EXPECT_TRUE((x * 2).requires_grad());
    }
    EXPECT_FALSE(is_grad_enabled());
  }
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST(GradMode, NoGradEndsWithAnException) {
  EXPECT_FALSE(error_of([] {
                 const no_grad silent;
                 (void)(constant({1, 2}) + constant({1, 2, 3}));
               }).empty());
  EXPECT_TRUE(is_grad_enabled());
}

TEST(GradMode, InferenceTensorsStayOutOfGraphs) {
  const Tensor w = leaf({3});
  Tensor x;
  {
    const inference_mode only;
    x = constant({2}) * 1;
    EXPECT_TRUE(x.is_inference());
    EXPECT_FALSE((w * x).requires_grad());
    x.add_(1);
  }
  EXPECT_TRUE(contains(error_of([&] { x.add_(1); }), "inference_mode"));
  EXPECT_TRUE(contains(error_of([&] { (void)(w * x); }), "inference_mode"));
  EXPECT_TRUE(contains(error_of([&] { x.requires_grad_(); }), "inference_mode"));
  (w * clone(x)).backward();
  EXPECT_EQ(values(w.grad()), (Values{3}));
}

TEST(GradMode, ViewsOfOrdinaryTensorsStayOrdinary) {
  const Tensor plain = constant({1, 2, 3}), w = leaf({2, 2, 2});
  const Tensor computed = w * 1;
  Tensor view, of_computed;
  {
    const inference_mode only;
    view = plain.narrow(0, 0, 2);
    of_computed = computed[0];
    EXPECT_FALSE(view.is_inference());
    EXPECT_FALSE(of_computed.is_inference());
    EXPECT_FALSE(of_computed.requires_grad());
    EXPECT_TRUE(clone(plain).is_inference());
    view.add_(1);
  }
  view.mul_(2);
  EXPECT_EQ(values(plain), (Values{4, 6, 3}));
  (view * w.narrow(0, 0, 2)).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{4, 6, 0}));
  // Whether these writes belong to the graph is unclear.
  EXPECT_TRUE(contains(error_of([&] { view.mul_(w[0]); }), "inference_mode"));
  EXPECT_TRUE(contains(error_of([&] { of_computed.mul_(3); }), "inference_mode"));
}

TEST(GradMode, ViewsOfInferenceTensorsAreInferenceTensors) {
  const Tensor w = leaf({3, 4});
  Tensor x;
  {
    const inference_mode only;
    x = constant({1, 2, 3, 4}).view({2, 2});
  }
  for (const Tensor& view : {x.transpose(0, 1), x[0], x.view({4}), x[1].unsqueeze(0), x.detach()}) {
    EXPECT_TRUE(view.is_inference());
    EXPECT_TRUE(contains(error_of([&] { view.add_(1); }), "inference_mode"));
  }
  EXPECT_TRUE(contains(error_of([&] { (void)(w * x[0]); }), "inference_mode"));
  EXPECT_FALSE((x[0] + 1).is_inference());
  EXPECT_FALSE(constant({1, 2}).view({2, 1}).is_inference());
  (w * clone(x[1])).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{3, 4}));
}

TEST(Detach, SharesDataAndCutsTheGraph) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  const Tensor cut = y.detach();
  EXPECT_TRUE(cut.shares_storage(y));
  EXPECT_FALSE(cut.requires_grad());
  (y * cut).backward();
  EXPECT_EQ(values(x.grad()), (Values{18}));
}

TEST(Detach, InPlace) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  y.detach_();
  EXPECT_TRUE(y.is_leaf());
  EXPECT_FALSE(y.requires_grad());
}

TEST(Leaves, RequireGradOnlyWhereItMakesSense) {
  EXPECT_TRUE(contains(error_of([] { tensor({1, 2}).requires_grad_(); }), "floating-point"));
  const Tensor x = leaf({1});
  const Tensor y = x * 2;
  EXPECT_TRUE(contains(error_of([&] { y.requires_grad_(false); }), "leaf"));
  EXPECT_TRUE(y.requires_grad_().requires_grad());  // as it does already
  x.requires_grad_(false);
  EXPECT_FALSE((x * 2).requires_grad());
}

TEST(Leaves, SetGradChecksShapeDtypeDevice) {
  const Tensor x = leaf({1, 2});
  EXPECT_FALSE(error_of([&] { x.set_grad(constant({1})); }).empty());
  EXPECT_FALSE(error_of([&] { x.set_grad(zeros({2}, {.dtype = kFloat32})); }).empty());
  x.set_grad(constant({5, 6}));
  (x * 2).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{7, 8}));
}

}  // namespace
}  // namespace tensora::testing
