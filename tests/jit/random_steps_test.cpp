// Random ops within fused kernels: they draw the numbers of eager execution, whatever part of them
// a tile needs.
#include <gtest/gtest.h>

#include <cstring>

#include "tensora/core/backend.h"
#include "tensora/jit/compile.h"
#include "tensora/jit/random_ops.h"
#include "tensora/jit/stats.h"
#include "tensora/ops/random/random.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         (x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0);
}

/// Runs a function of one tensor eagerly and compiled; returns how many kernels that took.
template <class Body>
uint64_t expect_eagers_bits(const Body& body) {
  manual_seed(5);
  const Tensor eager = body(), eager_after = rand({3});
  const auto compiled = compile(body, {.fuse = Fuse::everything, .strict = true});
  uint64_t launches = 0;
  for (int call = 0; call < 2; ++call) {  // with a plan of its own, and with one that was found
    manual_seed(5);
    const uint64_t before = jit::stats().launches;
    const Tensor fused = compiled();
    launches = jit::stats().launches - before;
    EXPECT_TRUE(same_bits(fused, eager)) << eager.dtype() << " " << eager.sizes();
    EXPECT_TRUE(same_bits(rand({3}), eager_after)) << "the stream went on elsewhere";
  }
  return launches;
}

TEST(RandomSteps, DropoutIsPartOfItsNeighboursKernel) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64})
    for (const Shape& sizes : {Shape{7}, Shape{3, 700}, Shape{129, 5}, Shape{40, 333}}) {
      SCOPED_TRACE(concat(dtype, " ", sizes));
      manual_seed(1);
      const Tensor x = randn(sizes).to(dtype), bias = randn({sizes[sizes.size() - 1]}).to(dtype);
      EXPECT_EQ(expect_eagers_bits([&] { return dropout(x * 2 + bias, 0.3).relu() + 1; }), 1u);
      EXPECT_EQ(expect_eagers_bits([&] {
                  const Tensor y = x + bias;
                  dropout_(y, 0.7);
                  return dropout(y, 0.1) - x;
                }),
                1u);
      EXPECT_EQ(expect_eagers_bits([&] { return dropout(x + bias, 1.0) + 1; }), 1u);
      EXPECT_EQ(expect_eagers_bits([&] { return alpha_dropout(x + bias, 0.5, true); }), 1u);
    }
}

TEST(RandomSteps, NumbersBelongToElementsWhateverTheLayout) {
  manual_seed(1);
  const Tensor x = randn({6, 5, 33, 4}), five = randn({5}), t = randn({40, 70}).transpose(0, 1);
  EXPECT_EQ(expect_eagers_bits([&] { return dropout(t * 2, 0.5) + 1; }), 1u);
  EXPECT_EQ(expect_eagers_bits([&] {
              return dropout(x.permute({0, 2, 3, 1}) + 1, 0.5) * five;
            }),
            1u);
  EXPECT_EQ(expect_eagers_bits([&] { return dropout(x.slice(3, 1, 4, 2) + 1, 0.5) * 3; }), 1u);
  const Tensor y = x.contiguous(MemoryFormat::channels_last);
  EXPECT_EQ(expect_eagers_bits([&] { return dropout(y + 1, 0.5) * 3; }), 1u);
}

TEST(RandomSteps, FilledTensors) {
  for (const Shape& sizes : {Shape{7}, Shape{3, 700}, Shape{129, 5}}) {
    SCOPED_TRACE(concat(sizes));
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      const TensorOptions options{.dtype = dtype};
      EXPECT_EQ(expect_eagers_bits([&] { return rand(sizes, options) * 2 + 1; }), 1u);
      EXPECT_EQ(expect_eagers_bits([&] { return randn(sizes, options) + rand(sizes, options); }),
                1u);
      EXPECT_EQ(expect_eagers_bits([&] { return exponential_(empty(sizes, options), 2) + 1; }), 1u);
      EXPECT_EQ(expect_eagers_bits([&] { return bernoulli_(empty(sizes, options), 0.3) + 1; }), 1u);
    }
    EXPECT_EQ(expect_eagers_bits([&] { return randint(-4, 90, sizes) * 2; }), 1u);
    EXPECT_EQ(expect_eagers_bits([&] { return randn(sizes) > rand(sizes); }), 1u);
  }
}

TEST(RandomSteps, RowsWithDropout) {
  manual_seed(1);
  const Tensor x = randn({48, 130}), mask = randn({48, 130}) > 0;
  EXPECT_EQ(expect_eagers_bits([&] { return dropout(x.amax({-1}, true) + x, 0.4) * 2; }), 1u);
  EXPECT_EQ(
      expect_eagers_bits([&] { return dropout(softmax(x.masked_fill(mask, -1), -1), 0.1) * 2; }),
      1u);
  // One number per row is not the row's numbers.
  EXPECT_GT(expect_eagers_bits([&] { return dropout(x.amax({-1}, true), 0.4) + x; }), 1u);
}

TEST(RandomSteps, Gradients) {
  manual_seed(1);
  const Tensor x = randn({30, 41});
  expect_eagers_bits([&] {
    const Tensor leaf = x.detach().clone().requires_grad_();
    (dropout(leaf * 2, 0.5) * x).sum().backward();
    return leaf.grad();
  });
}

TEST(RandomSteps, OtherRandomOpsRunByThemselves) {
  manual_seed(1);
  const Tensor x = randn({30, 41}), p = rand({30, 41});
  EXPECT_EQ(expect_eagers_bits([&] { return rrelu(x + 1, 0.1, 0.3, true) + 1; }), 3u);
  EXPECT_GT(expect_eagers_bits([&] { return bernoulli(p) + 1; }), 1u);
}

TEST(RandomSteps, ReplayDrawsAnew) {
  const no_grad silent;
  const Tensor x = ones({50, 70});
  const auto body = [](const Tensor& in) { return dropout(in * 2, 0.5) + rand(in.sizes()); };
  const auto fast = compile(body, {.fuse = Fuse::everything, .replay = true});
  manual_seed(3);
  std::vector<Tensor> eager;
  for (int i = 0; i < 5; ++i) eager.push_back(body(x));
  manual_seed(3);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(same_bits(fast(x), eager[static_cast<size_t>(i)])) << i;
}

TEST(RandomSteps, PartsOfTheNumbersAreTheWholesNumbers) {
  const Normal normal{.seed = 3, .offset = 1000, .mean = 1, .std = 2};
  jit::TileProgram::Step step{.kind = jit::TileProgram::Step::Kind::random, .op = &normal_op};
  const auto drawn = [&](int64_t first, int64_t count) {
    const Tensor numbers = empty({count});
    jit::draw(step, &normal, first, nullptr, numbers.impl().view);
    return numbers;
  };
  const Tensor whole = drawn(0, 1000);
  for (const int64_t first : {0, 1, 127, 128, 129, 400})
    for (const int64_t count : {1, 31, 128, 333})
      EXPECT_TRUE(same_bits(drawn(first, count), whole.narrow(0, first, count).contiguous()))
          << first << " " << count;
}

}  // namespace
}  // namespace tensora::test
