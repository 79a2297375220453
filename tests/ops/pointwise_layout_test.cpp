// The strides that pointwise results have; each is what PyTorch 2.15 gives.
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

}  // namespace
}  // namespace tensora
