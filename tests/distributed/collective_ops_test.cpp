#include <gtest/gtest.h>

#include "tensora/distributed/fake.h"
#include "tensora/distributed/threads.h"
#include "tensora/jit/lazy.h"
#include "tensora/ops/collective/collective.h"
#include "tensora/tensora.h"

namespace tensora::distributed {
namespace {

Tensor grid(int rank, const Shape& sizes) {
  return reshape(arange(sizes.numel(), {.dtype = kFloat64}), sizes) + 100.0 * rank;
}

class CollectiveOps : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveOps, ::testing::Range(1, 6));

TEST_P(CollectiveOps, ValuesAlongAnyDim) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](ProcessGroup& world) {
    const int rank = world.rank();
    for (int64_t dim : {0, 1, -1}) {
      const Shape sizes{2, 3, 4};
      std::vector<Tensor> all;
      for (int r = 0; r < ranks; ++r) all.push_back(grid(r, sizes));
      EXPECT_TRUE(equal(collective::all_gather(grid(rank, sizes), dim), cat(all, dim)));

      const Shape whole{2 * ranks, 3 * ranks, 4 * ranks};
      Tensor sum = grid(0, whole);
      for (int r = 1; r < ranks; ++r) sum = sum + grid(r, whole);
      EXPECT_TRUE(equal(collective::reduce_scatter(grid(rank, whole), ReduceOp::sum, dim),
                        chunk(sum, ranks, dim)[static_cast<size_t>(rank)]));
      std::vector<Tensor> mine;
      for (int r = 0; r < ranks; ++r)
        mine.push_back(chunk(grid(r, whole), ranks, 1)[static_cast<size_t>(rank)]);
      EXPECT_TRUE(equal(collective::all_to_all(grid(rank, whole), 1, dim), cat(mine, dim)));
    }
    EXPECT_TRUE(equal(collective::broadcast(grid(rank, {3}), ranks - 1), grid(ranks - 1, {3})));
  });
}

/// The gradient of `weights * f(x)` on each rank, where the whole is the sum over the ranks,
/// against differences of that whole.
void check_gradient(int ranks, const Shape& sizes,
                    const std::function<Tensor(const Tensor&)>& function) {
  run_ranks(ranks, [&](ProcessGroup& world) {
    const int rank = world.rank();
    const auto whole = [&](const Tensor& x) {
      const Tensor y = function(x);
      const Tensor weights = cos(grid(rank, y.sizes()));
      return sum(y * weights);
    };
    Tensor x = sin(grid(rank, sizes)).requires_grad_();
    whole(x).backward();
    // Every rank's input is moved in turn; the others take part with theirs.
    for (int moved = 0; moved < ranks; ++moved)
      for (int64_t i : {int64_t{0}, sizes.numel() - 1}) {
        const no_grad off;
        double values[2];
        for (int side : {0, 1}) {
          Tensor at = x.detach().clone();
          if (rank == moved) at.view({-1})[i].add_(side ? 1e-5 : -1e-5);
          Tensor total = whole(at).clone();
          world.all_reduce(total.view_of_data())->wait();
          values[side] = total.item<double>();
        }
        if (rank == moved) {
          EXPECT_NEAR(x.grad().view({-1})[i].item<double>(), (values[1] - values[0]) / 2e-5, 1e-6);
        }
      }
  });
}

TEST_P(CollectiveOps, GradientsWhereEachRankUsesTheResultDifferently) {
  const int ranks = GetParam();
  check_gradient(ranks, {2, 3}, [](const Tensor& x) { return collective::all_gather(x, 1); });
  check_gradient(ranks, {ranks, 2}, [](const Tensor& x) { return collective::reduce_scatter(x); });
  check_gradient(ranks, {2, 2 * ranks},
                 [](const Tensor& x) { return collective::all_to_all(x, 1, 0); });
  check_gradient(ranks, {3}, [](const Tensor& x) { return collective::broadcast(x, 0); });
  check_gradient(ranks, {3}, [&](const Tensor& x) { return collective::reduce(x, ranks - 1); });
  // PyTorch's all_reduce.
  check_gradient(ranks, {3}, [](const Tensor& x) {
    return collective::replicate_grad(collective::all_reduce(x));
  });
}

TEST_P(CollectiveOps, ColumnAndRowParallelProductsLearnLikeOne) {
  const int ranks = GetParam();
  manual_seed(3);
  const int64_t hidden = 4 * ranks;
  const TensorOptions f64{.dtype = kFloat64};
  const Tensor x0 = randn({5, 6}, f64), a0 = randn({6, hidden}, f64), b0 = randn({hidden, 3}, f64);
  const Tensor x1 = x0.clone().requires_grad_(), a1 = a0.clone().requires_grad_(),
               b1 = b0.clone().requires_grad_();
  sum(square(matmul(relu(matmul(x1, a1)), b1))).backward();
  run_ranks(ranks, [&](ProcessGroup& world) {
    const auto part = [&](const Tensor& whole, int64_t dim) {
      return chunk(whole, ranks, dim)[static_cast<size_t>(world.rank())].clone();
    };
    const Tensor x = x0.clone().requires_grad_(), a = part(a0, 1).requires_grad_(),
                 b = part(b0, 0).requires_grad_();
    const Tensor inside = relu(matmul(collective::replicate_grad(x), a));
    sum(square(collective::all_reduce(matmul(inside, b)))).backward();
    EXPECT_TRUE(allclose(x.grad(), x1.grad(), 1e-12, 1e-12));
    EXPECT_TRUE(allclose(a.grad(), part(a1.grad(), 1), 1e-12, 1e-12));
    EXPECT_TRUE(allclose(b.grad(), part(b1.grad(), 0), 1e-12, 1e-12));
  });
}

TEST(CollectiveOpsOnce, ShapesOfFakeWorlds) {
  const auto world = make_fake_world(7, 1024);
  set_world(world);
  const Tensor x = empty({8, 2048}, {.device = "meta"});
  EXPECT_EQ(collective::all_gather(x, 0).sizes(), Shape({8192, 2048}));
  EXPECT_EQ(collective::reduce_scatter(x, ReduceOp::sum, 1).sizes(), Shape({8, 2}));
  EXPECT_EQ(collective::all_to_all(x, 1, 0).sizes(), Shape({8192, 2}));
  EXPECT_THROW(collective::reduce_scatter(x, ReduceOp::sum, 0), Error);
  set_world(nullptr);
}

// Kernels whose results a collective sends have to run before it.
TEST_P(CollectiveOps, RunInLazyScopes) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](ProcessGroup& world) {
    const Tensor x = full({ranks, 6}, world.rank() + 1.0).requires_grad_();
    const auto run = [&] {
      x.set_grad({});
      const Tensor sum = collective::all_reduce((x * 2 + 1).relu());
      const Tensor all = collective::all_gather((sum * x).transpose(0, 1), 0);
      const Tensor part = collective::reduce_scatter(all.reshape({ranks, -1}).contiguous());
      (collective::all_to_all(x * 3, 0, 1).exp().sum() + part.sum()).backward();
      return part * 2;
    };
    const Tensor expected = run(), gradient = x.grad();
    Tensor result;
    {
      const LazyScope lazy({.fuse = Fuse::everything});
      result = run();
    }
    EXPECT_TRUE(allclose(result, expected));
    EXPECT_TRUE(allclose(x.grad(), gradient));
  });
}

TEST(CollectiveOpsOnce, MaximumHasNoGradient) {
  const Tensor x = ones({2}).requires_grad_();
  EXPECT_THROW(sum(collective::all_reduce(x, ReduceOp::maximum)).backward(), Error);
}

}  // namespace
}  // namespace tensora::distributed
