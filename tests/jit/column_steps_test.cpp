// Sums over leading dims, such as the gradients of biases, as part of the kernel that makes the
// elements.
#include <gtest/gtest.h>

#include <cstring>

#include "tensora/base/thread_pool.h"
#include "tensora/jit/compile.h"
#include "tensora/jit/stats.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

/// Compares all results of a body with eager's, nearly; returns how many kernels it took.
template <class Body>
uint64_t expect_near_eager(const Body& body, double tolerance = 1e-5) {
  const std::vector<Tensor> eager = body();
  const auto compiled = compile(body, {.fuse = Fuse::everything, .strict = true});
  uint64_t launches = 0;
  for (int call = 0; call < 2; ++call) {
    const uint64_t before = jit::stats().launches;
    const std::vector<Tensor> fused = compiled();
    launches = jit::stats().launches - before;
    EXPECT_EQ(fused.size(), eager.size());
    for (size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(fused[i].dtype(), eager[i].dtype());
      EXPECT_EQ(to_string(fused[i].sizes()), to_string(eager[i].sizes()));
      EXPECT_EQ(to_string(fused[i].strides()), to_string(eager[i].strides()));
      const std::vector<double> a = to_vector<double>(fused[i]), b = to_vector<double>(eager[i]);
      double scale = 1;
      for (double value : b) scale = std::max(scale, std::abs(value));
      for (size_t k = 0; k < b.size(); ++k)
        EXPECT_LE(std::abs(a[k] - b[k]), tolerance * scale) << "result " << i << ", element " << k;
    }
  }
  return launches;
}

using Results = std::vector<Tensor>;

TEST(ColumnSteps, SumsArePartOfTheKernel) {
  manual_seed(3);
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16})
    for (const Shape& sizes : {Shape{300, 77}, Shape{5, 1000}, Shape{2000, 1}, Shape{1, 9},
                               Shape{40, 30, 20}, Shape{7, 1, 64}}) {
      SCOPED_TRACE(concat(dtype, " ", sizes));
      const Tensor x = randn(sizes).to(dtype), b = randn({sizes[sizes.size() - 1]}).to(dtype);
      const double tolerance = dtype == kBFloat16 ? 1e-2 : 1e-5;
      // The elements and their sum, and the sum alone.
      const auto both = [&] {
        const Tensor y = (x * 2 + b).relu();
        return Results{y, y.sum({0})};
      };
      EXPECT_EQ(expect_near_eager(both, tolerance), 1u);
      EXPECT_EQ(expect_near_eager([&] { return Results{(x * b - 1).sum({0}, true)}; }, tolerance),
                1u);
    }
}

TEST(ColumnSteps, SeveralLeadingDimsAndAllLayouts) {
  manual_seed(3);
  const Tensor x = randn({6, 50, 4, 8}), t = randn({90, 130}).transpose(0, 1);
  EXPECT_EQ(expect_near_eager([&] { return Results{(x * 2).sum({0, 1})}; }), 1u);
  EXPECT_EQ(expect_near_eager([&] { return Results{(x * 2).sum({0, 1, 2})}; }), 1u);
  EXPECT_EQ(expect_near_eager([&] { return Results{(x * 2).sum({0})}; }), 1u);
  EXPECT_EQ(expect_near_eager([&] { return Results{t * 3, (t * 2 + 1).sum({0})}; }), 1u);
  EXPECT_EQ(expect_near_eager([&] {
              const Tensor y = x.permute({0, 2, 3, 1}) * 2;
              return Results{y, y.sum({0}), (y + 1).sum({0})};
            }),
            1u);
  EXPECT_EQ(expect_near_eager([&] { return Results{(x.slice(3, 1, 8, 3) * 2).sum({0, 1})}; }), 1u);
  EXPECT_EQ(expect_near_eager([&] { return Results{(x[0][0][0] * ones({33, 8})).sum({0})}; }), 1u);
}

TEST(ColumnSteps, WhatReadsASumComesAfterIt) {
  manual_seed(3);
  const Tensor x = randn({60, 40});
  EXPECT_EQ(expect_near_eager([&] {
              const Tensor y = x * 2, total = y.sum({0});
              return Results{y - total, total * 3};
            }),
            3u);
  // Sums of other dims are other kernels.
  EXPECT_GE(expect_near_eager([&] {
              const Tensor y = x.view({6, 10, 40}) * 2;
              return Results{y.sum({0}), y.sum({0, 1}), y.sum({1})};
            }),
            2u);
}

TEST(ColumnSteps, BackwardOfABias) {
  manual_seed(3);
  const Tensor x = randn({128, 48});
  const auto body = [&] {
    const Tensor in = x.detach().requires_grad_(), bias = full({48}, 0.5).requires_grad_();
    ((in + bias).relu() * x).sum().backward();
    return Results{in.grad(), bias.grad()};
  };
  expect_near_eager(body);
}

TEST(ColumnSteps, BackwardOfANormByHand) {
  manual_seed(3);
  const Tensor x = randn({64, 96}), grad = randn({64, 96}), w = randn({96});
  // One pass: the rows' reductions, the gradient, and the sums for weight and bias.
  const auto body = [&] {
    const Tensor centred = x - x.mean({-1}, true);
    const Tensor rstd = rsqrt(centred.square().mean({-1}, true) + 1e-5);
    const Tensor hat = centred * rstd, g = grad * w;
    const Tensor dx = (g - g.mean({-1}, true) - hat * (g * hat).mean({-1}, true)) * rstd;
    return Results{dx, (grad * hat).sum({0}), grad.sum({0})};
  };
  EXPECT_LE(expect_near_eager(body), 2u);
}

TEST(ColumnSteps, ResultsDoNotDependOnThreads) {
  manual_seed(3);
  const Tensor x = randn({5000, 130});
  const auto f = compile([&] { return (x * 0.1 + 1).sum({0}); }, {.fuse = Fuse::everything});
  const int threads = get_num_threads();
  const Tensor expected = f();
  for (const int count : {1, 2, 5}) {
    set_num_threads(count);
    const Tensor found = f();
    EXPECT_EQ(std::memcmp(found.data_ptr(), expected.data_ptr(), 130 * 4), 0) << count;
  }
  set_num_threads(threads);
}

TEST(ColumnSteps, SmallArraysAreSummedByThemselvesUnlessAsked) {
  const Tensor x = ones({64, 64});
  const auto body = [&] { return (x * 2).sum({0}); };
  const std::string text = compile(body).explain();
  EXPECT_NE(text.find("not fused: sum: an array of that size stays in the cache"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tensora::test
