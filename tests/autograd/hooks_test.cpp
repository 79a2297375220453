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

TEST(Hooks, AfterAccumulationOncePerBackward) {
  const Tensor x = leaf({1});
  std::vector<Values> seen;
  autograd_meta(x).accumulator->add_after_hook(
      [&](const Tensor& grad) { seen.push_back(values(grad)); });
  (x * 2 + x * 3).backward();
  (x * 1).backward();
  EXPECT_EQ(seen, (std::vector<Values>{{5}, {6}}));
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
