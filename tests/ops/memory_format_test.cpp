#include <gtest/gtest.h>

#include "tensora/tensora.h"

namespace tensora {
namespace {

TEST(MemoryFormat, ChannelsLastKeepsSizesAndElements) {
  const Tensor x = arange(2 * 3 * 4 * 5).reshape({2, 3, 4, 5});
  const Tensor y = x.contiguous(MemoryFormat::channels_last);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_EQ(y.strides(), (Strides{60, 1, 15, 3}));
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
  EXPECT_FALSE(y.is_contiguous());
  EXPECT_TRUE(equal(x, y));
  EXPECT_TRUE(y.contiguous(MemoryFormat::channels_last).is_same(y));
  EXPECT_EQ(y.to(MemoryFormat::contiguous).strides(), x.strides());
}

TEST(MemoryFormat, SizesOfOneDoNotMatter) {
  EXPECT_TRUE(empty({2, 1, 3, 4}).is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(empty({2, 3, 1, 1}).is_contiguous(MemoryFormat::channels_last));
  EXPECT_FALSE(empty({2, 3}).is_contiguous(MemoryFormat::channels_last));
}

TEST(MemoryFormat, CloneHasMemoryOfItsOwn) {
  const Tensor x = ones({2, 3, 2, 2, 2});
  for (const MemoryFormat format :
       {MemoryFormat::contiguous, MemoryFormat::preserve, MemoryFormat::channels_last_3d}) {
    const Tensor y = clone(x, format);
    EXPECT_FALSE(y.shares_storage(x));
    EXPECT_TRUE(equal(x, y));
  }
  EXPECT_TRUE(
      clone(x, MemoryFormat::channels_last_3d).is_contiguous(MemoryFormat::channels_last_3d));
}

TEST(MemoryFormat, GradientsFlowThrough) {
  const Tensor x = randn({1, 2, 3, 3}, {.requires_grad = true});
  sum(x.contiguous(MemoryFormat::channels_last) * 2).backward();
  EXPECT_TRUE(equal(x.grad(), full_like(x, 2)));
}

TEST(MemoryFormat, WrongRanksAreNamed) {
  try {
    empty({2, 3}).contiguous(MemoryFormat::channels_last);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("channels_last needs a 4-D tensor, got shape [2, 3]"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tensora
