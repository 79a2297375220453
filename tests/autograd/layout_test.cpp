// Gradients are laid out as their leaves are, if those have no gaps.
#include "tensora/dispatch/interceptor.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

Tensor channels_last(const Shape& sizes /* N C H W */) {
  const Tensor x =
      empty_strided(sizes, {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]},
                    {.dtype = kFloat64});
  x.copy_(arange(0, sizes.numel(), 1, {.dtype = kFloat64}).view(sizes));
  return x;
}

TEST(GradientLayout, FollowsADenseLeaf) {
  const Tensor x = channels_last({2, 3, 4, 5}).requires_grad_();
  ASSERT_FALSE(x.is_contiguous());
  const Tensor row_major = ones({2, 3, 4, 5}, {.dtype = kFloat64});
  x.mul(row_major).backward(row_major);  // the gradient arrives row-major
  EXPECT_EQ(x.grad().strides(), x.strides());
  EXPECT_EQ(values(x.grad()), Values(120, 1));
  const void* address = x.grad().data_ptr();
  (x * x).sum().backward();
  EXPECT_EQ(x.grad().strides(), x.strides());
  EXPECT_EQ(x.grad().data_ptr(), address);
  EXPECT_EQ(values(x.grad()), values(x.detach() * 2 + 1));
}

TEST(GradientLayout, IsRowMajorForALeafWithGaps) {
  const Tensor x = channels_last({2, 3, 4, 4}).slice(3, 0, 4, 2).detach().requires_grad_();
  (x * x).sum().backward();
  EXPECT_TRUE(x.grad().is_contiguous());
  const Tensor expanded = constant({1, 2}).expand({3, 2}).detach().requires_grad_();
  (expanded * 2).sum().backward();
  EXPECT_TRUE(expanded.grad().is_contiguous());
}

class CopyCounter final : public Interceptor {
 public:
  Tensors intercept(const Call& call) override {
    copies += call.op.name == "clone" || call.op.name == "copy_";
    return proceed(call);
  }
  int copies = 0;
};

// The product is turned for the weight, and shaped like the input: views that nobody else has.
TEST(GradientLayout, OfALinearLayerIsNotCopied) {
  const Tensor x = ones({2, 3, 4}, {.dtype = kFloat64}).requires_grad_();
  const Tensor w = arange(0, 20, 1, {.dtype = kFloat64}).view({5, 4}).detach().requires_grad_();
  const Tensor y = linear(x, w), g = ones({2, 3, 5}, {.dtype = kFloat64});
  CopyCounter counter;
  {
    const InterceptorScope scope(counter);
    y.backward(g);
  }
  EXPECT_EQ(counter.copies, 0);
  EXPECT_EQ(values(w.grad()), Values(20, 6));
  EXPECT_TRUE(w.grad().is_contiguous());
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  // What somebody else holds is copied, also where it arrives as a view.
  const Tensor leaf = zeros({3, 2}, {.dtype = kFloat64}).requires_grad_();
  const Tensor held = ones({2, 3}, {.dtype = kFloat64});
  leaf.transpose(0, 1).backward(held);
  EXPECT_NE(leaf.grad().data_ptr(), held.data_ptr());
}

TEST(GradientLayout, AdamTakesIt) {
  const Tensor x = channels_last({2, 3, 4, 5}).requires_grad_();
  const Tensor plain = contiguous(x.detach()).requires_grad_();
  for (const Tensor& param : {x, plain}) {
    const Tensor average = zeros_like(param.detach()), square = zeros_like(param.detach());
    for (int64_t step = 1; step <= 3; ++step) {
      param.set_grad({});
      (param * param).sum().backward();
      adam_(param, average, square, param.grad(), {.lr = 0.1, .step = step});
    }
  }
  EXPECT_EQ(values(x), values(plain));
  EXPECT_FALSE(x.is_contiguous());
}

}  // namespace

TEST(SetData, MovesEveryHandleToAnotherArray) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor other_handle = x;
  int calls = 0;
  x.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
  (x * x).sum().backward();
  x.set_data(tensor({4.0F, 5.0F}));
  EXPECT_EQ(other_handle.dtype(), kFloat32);
  EXPECT_TRUE(other_handle.requires_grad());
  EXPECT_FALSE(x.grad().defined());  // the old one does not fit
  (x * x).sum().backward();
  EXPECT_EQ(values(other_handle.grad()), (Values{8, 10}));
  EXPECT_EQ(calls, 2);
  x.set_data(tensor({1.0F, 1.0F}));
  EXPECT_EQ(values(x.grad()), (Values{8, 10}));  // it fits, and stays
}

TEST(SetData, RefusesWhatWasComputedAndIntegers) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(contains(error_of([&] { (x * 2).set_data(x); }), "set_data: only a leaf"));
  EXPECT_TRUE(contains(error_of([&] { x.set_data(tensor({1, 2})); }), "cannot hold int64"));
}

}  // namespace tensora::testing
