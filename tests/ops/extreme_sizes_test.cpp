// Windows, strides and factors far beyond any input, and inputs without elements: a result or an
// Error, never a trap or a write out of bounds.
#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains;
using testing::error_of;
using testing::values;

constexpr int64_t kHuge = int64_t{1} << 62, kMost = std::numeric_limits<int64_t>::max();

Tensor image(int dims) {
  Shape sizes = Shape::filled(dims + 2, 3);
  return arange(static_cast<double>(sizes.numel())).view(sizes);
}

TEST(ExtremeSizes, PoolingRefusesSizesThatOverflow) {
  const Tensor line = image(1), plane = image(2), block = image(3);
  for (const int64_t size : {kHuge, kMost, int64_t{1} << 32}) {
    const std::string below = "must be below 2^30";
    EXPECT_TRUE(contains(error_of([&] { max_pool1d(line, size, {}, 0, 1, true); }), below));
    EXPECT_TRUE(contains(error_of([&] { max_pool2d(plane, size, {}, 0, 1, true); }), below));
    EXPECT_TRUE(contains(error_of([&] { max_pool3d(block, size, {}, 0, 1, true); }), below));
    EXPECT_TRUE(contains(error_of([&] { max_pool2d(plane, 1, 1, 0, size); }), below));
    EXPECT_TRUE(contains(error_of([&] { max_pool2d(plane, 1, size); }), below));
    EXPECT_TRUE(contains(error_of([&] { avg_pool2d(plane, size, {}, 0, true); }), below));
    const Tensor places = zeros({3, 3, 3, 3}, {.dtype = kInt64});
    EXPECT_TRUE(contains(error_of([&] { max_unpool2d(plane, places, size, size); }), below));
  }
}

// With ceil_mode one window that is larger than its input is allowed.
TEST(ExtremeSizes, WindowsLargerThanTheirInput) {
  constexpr int64_t kLarge = (int64_t{1} << 30) - 1;
  for (const int dims : {1, 2, 3}) {
    for (const bool channels_last : {false, true}) {
      Tensor x = image(dims);
      if (channels_last) x = movedim(contiguous(movedim(x, 1, -1)), -1, 1);
      x.requires_grad_();
      const auto pool = dims == 1 ? max_pool1d : dims == 2 ? max_pool2d : max_pool3d;
      const Tensor y = pool(x, kLarge, {}, 0, 1, true);
      EXPECT_EQ(y.numel(), 9);
      EXPECT_EQ(y.max().item<double>(), x.max().item<double>());
      y.sum().backward();
      EXPECT_EQ(x.grad().sum().item<double>(), 9);
      const Tensor padded = pool(x, kLarge, kLarge, kLarge / 2, 1, true);
      EXPECT_EQ(values(padded.flatten()), values(y.flatten()));
      pool(x, 1, 1, 0, kLarge, false).sum().backward();  // one position, whatever its distance
      EXPECT_EQ(x.grad().sum().item<double>(), 9 + static_cast<double>(x.numel()));
    }
  }
}

TEST(ExtremeSizes, AdaptiveResultsWithoutElements) {
  for (const auto pool : {adaptive_avg_pool2d, adaptive_max_pool2d}) {
    const Tensor x = image(2).requires_grad_();
    pool(x, Shape{int64_t{1} << 33, 0}).sum().backward();
    EXPECT_EQ(x.grad().abs().sum().item<double>(), 0);
  }
}

TEST(ExtremeSizes, OtherOpsRefuseWhatOverflows) {
  const Tensor x = image(2), weight = ones({3, 3, 2, 2});
  const auto fails = [](auto body) { EXPECT_NE(error_of(body), ""); };
  fails([&] { conv2d(x, weight, {}, 1, ConvPadding("same"), kMost); });
  fails([&] { conv2d(x, weight, {}, kHuge); });
  fails([&] { conv2d(x, weight, {}, 1, kHuge); });
  fails([&] { unfold(x, kHuge, 1, 0, 1); });
  fails([&] { interpolate(x, {}, std::vector<double>{1e30}); });
  fails([&] { interpolate(x, Shape{kHuge, 1}); });
  fails([&] { pad(x, {kHuge, kHuge}); });
  fails([&] { pixel_shuffle(x, kHuge); });
}

TEST(ExtremeSizes, OrdersOfDistancesThatFloat32CannotHold) {
  const Tensor a = tensor({{0.f, 3.f}, {1.f, 2.f}}), b = tensor({{5.f, 1.f}});
  EXPECT_EQ(values(cdist(a, b, 1e300)), (testing::Values{5, 4}));
  EXPECT_EQ(values(cdist(a, b, 1e-300)), (testing::Values{2, 2}));
  EXPECT_EQ(values(pdist(a, 1e300)), (testing::Values{1}));
}

TEST(ExtremeSizes, GroupNormNeedsChannels) {
  for (const Shape& sizes : {Shape{1, 0, 2}, Shape{2, 0}, Shape{0, 0, 3}})
    EXPECT_TRUE(contains(error_of([&] { group_norm(zeros(sizes), 1); }),
                         "number of channels to be greater than 0"));
  const Tensor none = zeros({0, 4, 2}).requires_grad_();
  const Tensor weight = ones({4}).requires_grad_();
  group_norm(none, 2, weight).sum().backward();
  EXPECT_EQ(values(weight.grad()), (testing::Values{0, 0, 0, 0}));
}

}  // namespace
}  // namespace tensora
