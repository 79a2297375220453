// How several arrays are walked in step: as few dims as all of them allow.
#include "tensora/backend/cuda/loops/host_walk.h"

#include <gtest/gtest.h>

#include "tensora/tensora.h"

namespace tensora::test {
namespace {

using cuda::HostWalk;

HostWalk walk_of(const std::vector<Tensor>& tensors) {
  std::vector<const View*> views;
  for (const Tensor& tensor : tensors) views.push_back(&tensor.view_of_data());
  return cuda::make_walk(views);
}

void expect_walk(const HostWalk& walk, const std::vector<int64_t>& sizes,
                 const std::vector<std::vector<int64_t>>& strides) {
  ASSERT_EQ(walk.dims, static_cast<int>(sizes.size()));
  ASSERT_EQ(walk.arrays, static_cast<int>(strides.size()));
  for (size_t d = 0; d < sizes.size(); ++d) {
    EXPECT_EQ(walk.sizes[d], sizes[d]) << d;
    for (size_t k = 0; k < strides.size(); ++k)
      EXPECT_EQ(walk.strides[k][d], strides[k][d]) << "array " << k << ", dim " << d;
  }
}

TEST(HostWalk, ContiguousArraysAreOneDim) {
  const Tensor x = zeros({2, 3, 4});
  expect_walk(walk_of({x, x, zeros({2, 3, 4}, {.dtype = kFloat64})}), {24}, {{4}, {4}, {8}});
}
TEST(HostWalk, NumbersStandStill) {
  expect_walk(walk_of({zeros({2, 3}), zeros({2, 3}), zeros({})}), {6}, {{4}, {4}, {0}});
  expect_walk(walk_of({zeros({2, 3}), zeros({1, 1}), zeros({2, 3})}), {6}, {{4}, {0}, {4}});
}
TEST(HostWalk, OneElement) { expect_walk(walk_of({zeros({1, 1}), zeros({})}), {1}, {{4}, {4}}); }
TEST(HostWalk, Broadcasting) {
  expect_walk(walk_of({zeros({2, 3}), zeros({2, 3}), zeros({3})}), {3, 2},
              {{4, 12}, {4, 12}, {4, 0}});
  expect_walk(walk_of({zeros({2, 3}), zeros({2, 1})}), {3, 2}, {{4, 12}, {0, 4}});
}
TEST(HostWalk, AlikeButNotContiguous) {
  const Tensor x = zeros({3, 2}).transpose(0, 1);
  expect_walk(walk_of({x, x}), {6}, {{4}, {4}});
  expect_walk(walk_of({zeros({2, 3}), x}), {3, 2}, {{4, 12}, {8, 4}});
  const Tensor part = zeros({2, 5}).narrow(1, 0, 3);
  expect_walk(walk_of({zeros({2, 3}), part}), {3, 2}, {{4, 12}, {4, 20}});
}
// Kernels lay views over each other and may leave the flags as they were.
TEST(HostWalk, StridesCountAndNotTheFlags) {
  const Tensor x = zeros({2, 3});
  View view = x.view_of_data();
  view.strides = {0, 1};  // `contiguous` still says yes
  const View* const views[] = {&x.view_of_data(), &view};
  expect_walk(cuda::make_walk(views), {3, 2}, {{4, 12}, {4, 0}});
}

}  // namespace
}  // namespace tensora::test
