// View ops in place, resize_, casts by name and second names: what has no place in the op suite.
#include <gtest/gtest.h>
#include <vector>

#include "tensora/tensora.h"

namespace tensora {
namespace {

TEST(InplaceViews, ChangeTheTensorItself) {
  const Tensor x = arange(6).view({2, 3});
  const std::vector<Tensor> handles = {x};
  const Tensor& alias = handles[0];
  EXPECT_TRUE(x.t_().is_same(x));
  EXPECT_EQ(alias.sizes(), (Shape{3, 2}));
  EXPECT_EQ(alias.strides(), (Strides{1, 3}));
  x.unsqueeze_(0);
  EXPECT_EQ(alias.sizes(), (Shape{1, 3, 2}));
  x.transpose_(1, -1).squeeze_();
  EXPECT_EQ(alias.sizes(), (Shape{2, 3}));
  EXPECT_TRUE(equal(alias, arange(6).view({2, 3})));
  x.as_strided_({2}, {2}, 1);
  EXPECT_TRUE(equal(alias, tensor({1, 3})));
  EXPECT_EQ(x.unsqueeze_(0).squeeze_(0).swapaxes_(0, 0).swapdims_(0, 0).dim(), 1);
}

TEST(InplaceViews, KeepTheHistory) {
  const Tensor leaf = arange(6, kFloat64).view({2, 3}).clone().requires_grad_();
  Tensor x = leaf * 2;
  x.t_().unsqueeze_(1);
  EXPECT_EQ(x.sizes(), (Shape{3, 1, 2}));
  const Tensor weights = arange(6, kFloat64).view({3, 1, 2});
  (x * weights).sum().backward();
  EXPECT_TRUE(equal(leaf.grad(), weights.view({3, 2}).t() * 2));
}

// The same row of the transposed base would be a column; a slice of its second dim is none.
TEST(InplaceViews, AViewTakenBeforeIsRefusedBeforeItIsWritten) {
  const Tensor leaf = tensor({2., 3.}).view({2, 1}).requires_grad_();
  const Tensor base = leaf * 1, part = base.chunk(2, 0).back();
  base.squeeze_();
  EXPECT_THROW(part.square_(), Error);
  EXPECT_THROW(part.mul_(5), Error);
  EXPECT_TRUE(equal(base.detach(), tensor({2., 3.})));
}

TEST(InplaceViews, AViewTakenBeforeRefusesAGradient) {
  const auto error = [](const auto& take, const auto& change) -> std::string {
    const Tensor base = ones({3, 3}, {.dtype = kFloat64, .requires_grad = true}) * 1;
    const Tensor view = take(base);
    change(base);
    base.mul_(2);
    try {
      view.sum().backward();
    } catch (const Error& refusal) {
      return refusal.what();
    }
    return "none";
  };
  const auto row = [](const Tensor& x) { return x.select(0, 0); };
  const auto columns = [](const Tensor& x) { return x.slice(1, 0, 2); };
  const auto last_part = [](const Tensor& x) { return x.chunk(3, 1).back(); };
  const std::string refused = "sizes were changed in place since";
  EXPECT_NE(error(row, [](const Tensor& x) { x.t_(); }).find(refused), std::string::npos);
  EXPECT_NE(
      error(last_part, [](const Tensor& x) { x.unsqueeze_(0).transpose_(0, 1); }).find(refused),
      std::string::npos);
  EXPECT_NE(error(columns, [](const Tensor& x) { x.as_strided_({9}, {1}, 0); }).find(refused),
            std::string::npos);
}

TEST(InplaceViews, OfAViewWriteThroughToTheBase) {
  const Tensor leaf = ones({4, 4}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor base = leaf * 1, rows = base.slice(0, 1, 3);
  rows.t_();
  EXPECT_EQ(rows.sizes(), (Shape{4, 2}));
  rows.mul_(3);
  base.sum().backward();
  EXPECT_EQ(leaf.grad().sum().item<double>(), 8 + 8 * 3);
}

TEST(InplaceViews, RefuseWhatCannotBeDifferentiated) {
  const Tensor leaf = ones({2, 3}, {.requires_grad = true});
  EXPECT_THROW(leaf.t_(), Error);
  EXPECT_THROW(leaf[0].unsqueeze_(0), Error);
  EXPECT_THROW(leaf.resize_({3}), Error);
  // A view that was taken before the base changed its sizes.
  const Tensor base = leaf * 1, row = base[0];
  base.t_();
  EXPECT_THROW((row * 2).sum().backward(), Error);
  // What a gradient saved of it has other sizes now.
  const Tensor other = leaf * 1, square = other * other;
  other.t_();
  EXPECT_THROW(square.sum().backward(), Error);
}

TEST(Resize, KeepsElementsInTheirPlaces) {
  const Tensor x = arange(6);
  x.resize_({2, 2});
  EXPECT_TRUE(equal(x, tensor({{0, 1}, {2, 3}})));
  x.resize_({2, 3});  // the storage still has them
  EXPECT_TRUE(equal(x, arange(6).view({2, 3})));
  x.resize_({4, 3});
  EXPECT_TRUE(equal(x.slice(0, 0, 2), arange(6).view({2, 3})));
  EXPECT_EQ(x.strides(), (Strides{3, 1}));
  EXPECT_EQ(x.resize_as_(zeros({0, 5})).sizes(), (Shape{0, 5}));
  const Tensor transposed = zeros({2, 3}).t();
  EXPECT_EQ(transposed.resize_({3, 2}).strides(), (Strides{1, 3})) << "the same sizes: nothing";
}

TEST(Resize, OfASharedStorage) {
  const Tensor x = arange(8), part = x.slice(0, 2, 4);
  part.resize_({3});
  EXPECT_TRUE(equal(part, tensor({2, 3, 4})));
  EXPECT_THROW(part.resize_({100}), Error);
  EXPECT_THROW(part.resize_({-1}), Error);
}

TEST(Names, ViewOfAnotherDtype) {
  const Tensor x = tensor({1.f}).requires_grad_();
  EXPECT_EQ(x.view(kInt32).item<int32_t>(), 0x3f800000);
  EXPECT_EQ(x.view({}).dim(), 0) << "a shape, not a dtype";
  EXPECT_FALSE(x.view(kFloat16).requires_grad());
  EXPECT_EQ(zeros({2, 4}).view(kFloat64).sizes(), (Shape{2, 2}));
}

TEST(Names, OfCastsAndQueries) {
  const Tensor x = tensor({1.5, -2.5});
  EXPECT_EQ(x.half().dtype(), kFloat16);
  EXPECT_EQ(x.bfloat16().dtype(), kBFloat16);
  EXPECT_EQ(x.abs().byte().dtype(), kUInt8);
  EXPECT_EQ(x.cfloat().dtype(), kComplex64);
  EXPECT_EQ(x.nelement(), 2);
  EXPECT_TRUE(x.is_signed());
  EXPECT_TRUE(x[0].is_nonzero());
  EXPECT_THROW(x.is_nonzero(), Error);
  EXPECT_TRUE(x.is_same_size(x));
  EXPECT_EQ(zeros({2, 3, 4}).numpy_T().sizes(), (Shape{4, 3, 2}));
  EXPECT_EQ(zeros({2, 3, 4}).adjoint().sizes(), (Shape{2, 4, 3}));
  EXPECT_EQ(scalar_tensor(3).dtype(), kFloat32);
  EXPECT_EQ(x.new_empty_strided({2, 2}, {1, 2}).strides(), (Strides{1, 2}));
  EXPECT_TRUE(equal(ones({2, 3}).sum_to_size({1, 3}), full({1, 3}, 2.f)));
  EXPECT_THROW(ones({2, 3}).sum_to_size({2}), Error);
}

TEST(Names, ThatAreSecondOnes) {
  const Tensor x = tensor({0.5, -0.25});
  EXPECT_TRUE(equal(x.absolute(), x.abs()));
  EXPECT_TRUE(equal(arcsin(x), asin(x)));
  EXPECT_TRUE(equal(x.clip(0, 1), x.clamp(0, 1)));
  EXPECT_TRUE(equal(divide(x, 2, "floor"), div(x, 2, "floor")));
  EXPECT_TRUE(equal(x.greater(0), x.gt(0)));
  EXPECT_TRUE(equal(x.clone().multiply_(x), x.square()));
  EXPECT_TRUE(equal(subtract(x, x, 2), -x));
  EXPECT_EQ(concat({x, x}).numel(), 4);
  EXPECT_EQ(concat(std::vector<Tensor>{x, x}, 0).numel(), 4);
  EXPECT_EQ(zeros({2, 3}).moveaxis({0}, {1}).sizes(), (Shape{3, 2}));
  EXPECT_EQ(zeros({2, 3}).rot90().sizes(), (Shape{3, 2}));
}

TEST(InplaceViews, AViewOfABaseWithOtherSizesIsNotWritten) {
  const Tensor a = tensor({2.}).requires_grad_(), base = ones({3, 3});
  const Tensor row = base.chunk(2, 0)[1];
  base.t_();  // changes no element
  EXPECT_THROW(row.addcmul_(a, a), Error);
  EXPECT_TRUE(equal(base, ones({3, 3})));
}

}  // namespace
}  // namespace tensora
