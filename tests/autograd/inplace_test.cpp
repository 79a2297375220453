#include "tests/helpers.h"

namespace tensora::testing {
namespace {

TEST(InPlace, OnAnIntermediate) {
  const Tensor x = leaf({2, 3});
  const Tensor y = x * 2;
  y.add_(1).mul_(3);
  EXPECT_EQ(values(y), (Values{15, 21}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{6, 6}));
}

TEST(InPlace, OnALeafThatRequiresGrad) {
  const Tensor x = leaf({1});
  EXPECT_TRUE(contains(error_of([&] { x.add_(1); }), "leaf"));
  EXPECT_TRUE(contains(error_of([&] { x.select(0, 0).add_(1); }), "view of a leaf"));
  EXPECT_EQ(values(x), (Values{1}));
  const no_grad silent;
  x.add_(1);
  EXPECT_EQ(values(x), (Values{2}));
  EXPECT_TRUE(x.is_leaf() && x.requires_grad());
}

TEST(InPlace, ALeafWithoutGradEntersTheGraph) {
  const Tensor w = leaf({3});
  const Tensor x = constant({2});
  x.mul_(w);
  EXPECT_TRUE(x.requires_grad());
  EXPECT_FALSE(x.is_leaf());
  x.backward();
  EXPECT_EQ(values(w.grad()), (Values{2}));
}

TEST(InPlace, TheOldContentsAreKeptForTheOtherOperand) {
  const Tensor x = leaf({2}), w = leaf({5});
  const Tensor y = x * 1;
  y.mul_(w);
  y.backward();
  EXPECT_EQ(values(w.grad()), (Values{2}));
  EXPECT_EQ(values(x.grad()), (Values{5}));
}

TEST(InPlace, WithItself) {
  const Tensor x = leaf({3});
  const Tensor y = x * 1;
  y.mul_(y);
  EXPECT_EQ(values(y), (Values{9}));
  y.backward();
  EXPECT_EQ(values(x.grad()), (Values{6}));
}

TEST(InPlace, DoubleBackward) {
  const Tensor x = leaf({3}), w = leaf({2});
  const Tensor y = x * x;
  y.mul_(w);  // x² w
  const std::vector<Tensor> first = grad(y, {x, w}, {.create_graph = true});
  EXPECT_EQ(values(first[0]), (Values{12}));
  EXPECT_EQ(values(first[1]), (Values{9}));
  EXPECT_EQ(values(grad(first[0] + first[1], {x})[0]), (Values{4 + 6}));
}

TEST(InPlace, ChangingASavedTensorIsAnErrorThatNamesTheOp) {
  const Tensor x = leaf({1, 2});
  const Tensor y = exp(x);
  y.add_(1);
  const std::string text = error_of([&] { y.sum().backward(); });
  EXPECT_TRUE(contains(text, "'exp'")) << text;
  EXPECT_TRUE(contains(text, "changed in place")) << text;
  EXPECT_TRUE(contains(text, "[2]")) << text;
}

TEST(InPlace, ChangingThroughAnAliasIsNoticed) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 1;
  const Tensor z = y * y;
  y.detach().select(0, 0).fill_(7);
  EXPECT_TRUE(contains(error_of([&] { z.sum().backward(); }), "'mul'"));
}

TEST(InPlace, ChangingWhatNobodySavedIsFine) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x + 1;
  const Tensor z = y + 1;
  y.mul_(5);
  z.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 1}));
}

TEST(InPlace, AbandonedGraphsAreFreed) {
  const uint64_t before = memory_stats().allocated;
  for (int i = 0; i < 4; ++i) {
    const Tensor w = zeros({1 << 16}, {.dtype = kFloat64, .requires_grad = true});
    const Tensor y = w * 1;
    y.mul_(w);
    y.mul_(y);
    exp_(y);
  }
  EXPECT_EQ(memory_stats().allocated, before);
}

TEST(InPlaceOnViews, TheBaseGetsTheHistory) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 1;
  y.narrow(0, 1, 2).mul_(10);
  EXPECT_EQ(values(y), (Values{1, 20, 30, 4}));
  (y * constant({1, 2, 3, 4})).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 20, 30, 4}));
}

TEST(InPlaceOnViews, GradientFlowsToTheValueWritten) {
  const Tensor w = leaf({5, 6});
  const Tensor buffer = zeros({4}, {.dtype = kFloat64});
  buffer.narrow(0, 1, 2).copy_(w);
  EXPECT_TRUE(buffer.requires_grad());
  (buffer * constant({1, 2, 3, 4})).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{2, 3}));
}

TEST(InPlaceOnViews, OverwrittenPartsPassNothingBack) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor y = x * 2;
  y.narrow(0, 0, 2).zero_();
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 0, 2}));
}

TEST(InPlaceOnViews, OtherViewsOfTheBaseSeeTheNewHistory) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 1;
  const Tensor left = y.narrow(0, 0, 2), right = y.narrow(0, 1, 3);
  left.mul_(10);
  EXPECT_EQ(values(right), (Values{20, 3, 4}));
  (right * right).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 400, 6, 8}));
}

TEST(InPlaceOnViews, SeveralWritesThroughSeveralViews) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 1;
  const Tensor left = y.narrow(0, 0, 3), right = y.narrow(0, 1, 3);
  left.mul_(2);
  right.mul_(3);
  left.mul_(5);
  EXPECT_EQ(values(y), (Values{10, 60, 90, 12}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{10, 30, 30, 3}));
}

TEST(InPlaceOnViews, ViewOfAView) {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6});
  const Tensor y = x * 1;
  const Tensor matrix = y.reshape({2, 3});
  const Tensor column = matrix.transpose(0, 1).select(0, 1);  // 2, 5
  column.mul_(10);
  EXPECT_EQ(values(y), (Values{1, 20, 3, 4, 50, 6}));
  matrix.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 10, 1, 1, 10, 1}));
}

TEST(InPlaceOnViews, InPlaceOnTheBaseRenewsItsViews) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 1;
  const Tensor first = y.select(0, 0);
  y.mul_(3);
  EXPECT_EQ(values(first), (Values{3}));
  first.backward();
  EXPECT_EQ(values(x.grad()), (Values{3, 0}));
}

TEST(InPlaceOnViews, AViewLearnsThatItsBaseRequiresGrad) {
  const Tensor w = leaf({2, 3});
  const Tensor base = zeros({2}, {.dtype = kFloat64});
  const Tensor view = base.select(0, 1);
  EXPECT_FALSE(view.requires_grad());
  base.add_(w);
  EXPECT_TRUE(view.requires_grad());
  EXPECT_FALSE(view.is_leaf());
  ASSERT_TRUE(view.grad_fn());
  view.backward();
  EXPECT_EQ(values(w.grad()), (Values{0, 1}));
}

TEST(InPlaceOnViews, DoubleBackward) {
  const Tensor x = leaf({2, 3});
  const Tensor y = x * x;
  y.select(0, 0).mul_(x.select(0, 1));  // x0² x1, x1²
  const Tensor first = grad(y.sum(), {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(first), (Values{12, 4 + 6}));
  EXPECT_EQ(values(grad(first.sum(), {x})[0]), (Values{6 + 4, 4 + 2}));
}

TEST(InPlaceOnViews, TransposedBase) {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6});
  const Tensor y = (x.reshape({2, 3}).transpose(0, 1) * 1);
  y.select(0, 2).mul_(10);
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 1, 10, 1, 1, 10}));
}

TEST(InPlaceOnViews, RetainedGradientOfTheBase) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 1;
  y.retain_grad();
  y.select(0, 0).mul_(3);
  (y * 2).sum().backward();
  EXPECT_EQ(values(y.grad()), (Values{2, 2}));
  EXPECT_EQ(values(x.grad()), (Values{6, 2}));
}

TEST(InPlaceErrors, ResultMustFit) {
  const Tensor x = zeros({3});
  EXPECT_TRUE(contains(error_of([&] { x.add_(zeros({2, 3})); }), "does not fit"));
  EXPECT_TRUE(contains(error_of([&] { tensor({1, 2}).add_(0.5); }), "cannot be stored"));
  EXPECT_TRUE(contains(error_of([&] { zeros({1}).expand({3}).add_(1); }), "share one memory"));
}

TEST(InPlaceErrors, VersionCountsWrites) {
  const Tensor x = zeros({3});
  const uint32_t before = x.version();
  x.add_(1);
  x.select(0, 1).add_(1);
  EXPECT_EQ(x.version(), before + 2);
  EXPECT_FALSE(error_of([&] { x.add_(zeros({2})); }).empty());
  EXPECT_EQ(x.version(), before + 2);
}

TEST(InPlaceErrors, OverlappingOperandsAreReadBeforeTheWrite) {
  const Tensor x = constant({1, 2, 3, 4});
  x.narrow(0, 1, 3).add_(x.narrow(0, 0, 3));
  EXPECT_EQ(values(x), (Values{1, 3, 5, 7}));
}

}  // namespace
}  // namespace tensora::testing
