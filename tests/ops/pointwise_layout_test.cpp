// The strides that results of pointwise ops and of flip have; each is what PyTorch 2.15 gives.
#include <gtest/gtest.h>

#include "tensora/tensora.h"

namespace tensora {
namespace {

TEST(PointwiseLayout, DimsOfSizeOneHaveAnOrderToo) {
  const Tensor a = zeros({1, 1, 4, 1}), b = zeros({1, 1, 1, 2}).permute({3, 1, 0, 2});
  EXPECT_EQ((a + b).strides(), (Strides{1, 8, 2, 8}));
  EXPECT_EQ((zeros({1, 1, 4, 1}) + zeros({2, 1, 1, 1})).strides(), (Strides{4, 4, 1, 1}));
}

TEST(PointwiseLayout, AConditionIsNotCast) {
  const Tensor condition = ones({1, 4}, {.dtype = kBool}).expand({3, 4});
  EXPECT_EQ(where(condition, zeros({4, 3}).t(), zeros({3, 4})).strides(), (Strides{1, 3}));
}

TEST(PointwiseLayout, FlipKeepsTheOrderOfDims) {
  const Tensor x = arange(24, {.dtype = kFloat32}).view({4, 6});
  const Tensor columns = x.slice(1, 0, 6, 2).t();  // 3 4, with gaps
  const Tensor flipped = flip(columns, {0});
  EXPECT_EQ(flipped.strides(), (Strides{1, 3}));
  EXPECT_EQ(flipped.select(0, 0).sum().item<float>(), columns.select(0, 2).sum().item<float>());
  EXPECT_EQ(flip(x.t(), {0, 1}).strides(), (Strides{1, 6}));
  EXPECT_EQ(flip(x, {1}).strides(), (Strides{6, 1}));
  EXPECT_TRUE(equal(flip(x.t(), {1}).select(1, 0), x.select(0, 3)));
}

}  // namespace
}  // namespace tensora
