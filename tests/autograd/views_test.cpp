// Views and the history of their base: layouts with gaps, empty tensors, views taken under no_grad.
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

Tensor matrix(int64_t rows, int64_t columns) {
  return arange(0, rows * columns, 1, {.dtype = kFloat64}).view({rows, columns});
}

TEST(ViewsWithGaps, AKeptViewOfARewrittenLeaf) {
  const Tensor w = matrix(2, 4).slice(1, 0, 4, 2).detach().requires_grad_();  // 0 2 | 4 6
  const Tensor view = w.t();
  {
    const no_grad silent;
    w.add_(1);
  }
  (view * view).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{2, 6, 10, 14}));
}

TEST(ViewsWithGaps, AWrittenViewOfABuffer) {
  const Tensor buffer = matrix(2, 4).narrow(1, 0, 2).detach(), w = leaf({10, 20});
  const Tensor row = buffer[0];
  row.mul_(w);
  EXPECT_EQ(values(buffer), (Values{0, 20, 4, 5}));
  (row * constant({1, 2})).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{0, 2}));
}

TEST(ViewsWithGaps, WritesThroughAColumn) {
  const Tensor w = leaf({5, 6});
  const Tensor base = matrix(4, 6).slice(0, 0, 4, 2).slice(1, 1, 6, 2).detach();  // 2 3
  const Tensor column = base.select(1, 1);
  column.copy_(w);
  column.mul_(w);
  (base * matrix(2, 3)).sum().backward();  // w² in column 1, weighed by 1 and 4
  EXPECT_EQ(values(w.grad()), (Values{10, 48}));
}

TEST(ViewsOfViews, EveryKindOfViewIsTakenAgain) {
  const auto views_of = [](const Tensor& x /* 4 6 */) {
    return TensorList{x.t(),
                      x.select(1, 2),
                      x.slice(0, 1, 4, 2).unsqueeze(0),
                      x.view({2, 2, 6}).permute({2, 0, 1}),
                      x.diagonal(1, 0, 1),
                      x.split(2, 0)[1],
                      x.unbind(0)[3],
                      x.unfold(1, 2, 2),
                      x.narrow(1, 1, 4).narrow(1, 1, 2).squeeze(),
                      as_strided(x, {2, 3}, {7, 1}, 3)};
  };
  for (size_t i = 0; i < views_of(matrix(4, 6)).size(); ++i) {
    const Tensor w = leaf({2});
    const Tensor base = clone(matrix(4, 6)), plain = clone(matrix(4, 6));
    const Tensor kept = views_of(base)[i];
    base.mul_(w);               // the kept view takes the new history
    views_of(base)[i].mul_(w);  // and a part is written through another one
    const Tensor weights = matrix(4, 6) + 1;
    (kept * views_of(weights)[i]).sum().backward({}, /*retain_graph=*/true);
    // kept = w² x: the gradient is 2 w x weights.
    const double expected = sum(views_of(plain)[i] * views_of(weights)[i]).item<double>() * 2 * 2;
    EXPECT_DOUBLE_EQ(values(w.grad())[0], expected) << "view " << i;
    w.set_grad({});
    (base * weights).sum().backward();
    const double whole = sum(plain * weights).item<double>();
    EXPECT_DOUBLE_EQ(values(w.grad())[0], whole + expected * 3 / 4) << "view " << i;
  }
}

TEST(ViewsOfViews, HistoriesOfViewsMakeNoCycle) {
  const uint64_t before = memory_stats().allocated;
  for (int i = 0; i < 3; ++i) {
    const Tensor w = zeros({1 << 12}, {.dtype = kFloat64, .requires_grad = true});
    const Tensor base = w * 1;
    const Tensor view = base.view({64, 64}).t()[3];
    view.mul_(w.narrow(0, 0, 64));
    view.mul_(2);
    base.exp_();
    (void)view.requires_grad();
  }
  EXPECT_EQ(memory_stats().allocated, before);
}

TEST(ViewsOfViews, LongChainsAreFreed) {
  const Tensor base = zeros({2, 2});
  Tensor view = base;
  for (int i = 0; i < 200'000; ++i) view = view.t();
  EXPECT_TRUE(view.is_view());
}

TEST(EmptyViews, CanBeWrittenUnderAutograd) {
  const Tensor w = leaf({2});
  const Tensor base = zeros({0, 3}, {.dtype = kFloat64}) * w;
  const Tensor view = base.t().slice(0, 1, 3);
  view.mul_(w);
  base.select(1, 2).add_(w);
  (base.sum() + view.sum()).backward();
  EXPECT_EQ(values(w.grad()), (Values{0}));
  const Tensor expanded = zeros({0, 3}).expand({5, 0, 3});
  expanded.add_(1);
  EXPECT_EQ(expanded.sizes(), (Shape{5, 0, 3}));
}

TEST(ViewsUnderNoGrad, WritesWhileRecordingAreRefused) {
  const Tensor a = leaf({1, 1, 1});
  const Tensor y = a * 2;
  Tensor view, of_leaf;
  {
    const no_grad silent;
    view = y[0];
    of_leaf = a[0];
  }
  EXPECT_TRUE(contains(error_of([&] { view.mul_(3); }), "no_grad"));
  EXPECT_TRUE(contains(error_of([&] { view.unsqueeze(0).mul_(3); }), "no_grad"));
  EXPECT_TRUE(contains(error_of([&] { of_leaf.mul_(3); }), "no_grad"));
  EXPECT_EQ(values(y), (Values{2, 2, 2}));
  y.sum().backward();
  EXPECT_EQ(values(a.grad()), (Values{2, 2, 2}));
  // Of a plain base too, if the value written has a history.
  const Tensor plain = constant({1, 2});
  const Tensor part = [&] {
    const no_grad silent;
    return plain[0];
  }();
  part.mul_(3);
  EXPECT_EQ(values(plain), (Values{3, 2}));
  EXPECT_TRUE(contains(error_of([&] { part.mul_(a[0]); }), "no_grad"));
}

TEST(ViewsUnderNoGrad, UsesAfterTheBaseChangedAreRefused) {
  const Tensor a = leaf({1, 2});
  const Tensor y = a * 2;
  Tensor view;
  {
    const no_grad silent;
    view = y[0];
    view.mul_(3);  // inside, everything is allowed
    y.add_(1);
    EXPECT_EQ(values(view + 1), (Values{8}));
  }
  EXPECT_TRUE(contains(error_of([&] { (void)(view + a); }), "no_grad"));
  EXPECT_EQ(values(view.detach()), (Values{7}));
  EXPECT_EQ(values(y), (Values{7, 5}));
  y.sum().backward();  // what was done inside is not part of the graph
  EXPECT_EQ(values(a.grad()), (Values{2, 2}));
}

TEST(AsStridedGradient, BeyondAndBetweenTheElementsOfItsInput) {
  const Tensor storage = arange(0, 8, 1, {.dtype = kFloat64});
  const auto gradient = [](const Tensor& x, const Shape& sizes, const Strides& strides,
                           int64_t offset) {
    const Tensor view = as_strided(x, sizes, strides, offset);
    (view * arange(1, 1 + view.numel(), 1, {.dtype = kFloat64}).view(sizes)).sum().backward();
    return values(x.grad());
  };
  // Numbers as PyTorch gives them.
  EXPECT_EQ(gradient(storage.narrow(0, 1, 2).detach().requires_grad_(), {4}, {1}, 1),
            (Values{1, 2}));
  EXPECT_EQ(gradient(storage.narrow(0, 3, 2).detach().requires_grad_(), {4}, {1}, 1),
            (Values{3, 4}));
  EXPECT_EQ(gradient(storage.narrow(0, 6, 2).detach().requires_grad_(), {2, 2}, {2, 1}, 0),
            (Values{0, 0}));
  EXPECT_EQ(gradient(storage.slice(0, 0, 8, 2).detach().requires_grad_(), {8}, {1}, 0),
            (Values{1, 3, 5, 7}));
  EXPECT_EQ(gradient(storage.slice(0, 0, 8, 2).detach().requires_grad_(), {3, 3}, {2, 1}, 0),
            (Values{1, 3 + 4, 6 + 7, 9}));
  EXPECT_EQ(gradient(storage.narrow(0, 0, 2).expand({2, 2}).detach().requires_grad_(), {2}, {1}, 0),
            (Values{0.5, 1, 0.5, 1}));
  EXPECT_EQ(gradient(storage.narrow(0, 0, 0).detach().requires_grad_(), {2}, {1}, 0), (Values{}));
}

TEST(AsStridedGradient, OfSecondOrder) {
  const Tensor x = constant({1, 2, 3, 4}).slice(0, 0, 4, 2).detach().requires_grad_();  // 1 3
  const Tensor view = as_strided(x, {2, 2}, {1, 1}, 0);                                 // 1 2 | 2 3
  const Tensor first = grad((view * view * view).sum(), {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(first), (Values{3, 27}));
  EXPECT_EQ(values(grad(first.sum(), {x})[0]), (Values{6, 18}));
}

TEST(InPlace, IntegersGetNoHistory) {
  const Tensor x = leaf({1.5, 2.5});
  const Tensor whole = zeros({2}, {.dtype = kInt64});
  whole.copy_(x);
  EXPECT_FALSE(whole.requires_grad());
  EXPECT_TRUE(whole.is_leaf());
  EXPECT_EQ(values(whole), (Values{1, 2}));
  (whole * x).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 2}));
}

}  // namespace
}  // namespace tensora::testing
