#include "tensora/distributed/sync_batch_norm.h"

#include <set>

#include "tensora/distributed/partition_sampler.h"
#include "tensora/distributed/threads.h"
#include "tensora/nn.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using distributed::PartitionSampler;
using distributed::run_ranks;
using distributed::SyncBatchNorm;

void expect_near(const Tensor& a, const Tensor& b) {
  const Values left = values(a), right = values(b);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-12);
}

TEST(SyncBatchNorm, EqualsBatchNormOfAllExamples) {
  manual_seed(3);
  const Tensor x = randn({9, 4, 5, 2}, {.dtype = kFloat64});
  const Tensor factor = randn({9, 4, 5, 2}, {.dtype = kFloat64});
  nn::BatchNorm2d alone(4);
  alone.to(kFloat64);
  const Tensor whole = x.clone().requires_grad_();
  const Tensor expected = alone(whole);
  (expected * factor).sum().backward();
  run_ranks(3, [&](ProcessGroup& world) {
    const int64_t begin = std::vector<int64_t>{0, 2, 9}[static_cast<size_t>(world.rank())];
    const int64_t rows = std::vector<int64_t>{2, 7, 0}[static_cast<size_t>(world.rank())];
    SyncBatchNorm norm(4);
    norm.to(kFloat64);
    const Tensor own = x.narrow(0, begin, rows).clone().requires_grad_();
    const Tensor y = norm(own);
    expect_near(y, expected.narrow(0, begin, rows));
    (y * factor.narrow(0, begin, rows)).sum().backward();
    expect_near(own.grad(), whole.grad().narrow(0, begin, rows));
    expect_near(norm.running_mean, alone.running_mean);
    expect_near(norm.running_var, alone.running_var);
    const Tensor grad = norm.weight.grad().clone();
    world.all_reduce(grad.view_of_data())->wait();
    expect_near(grad, alone.weight.grad());
    norm.eval();
    if (world.rank() == 0) {  // the ranks are threads that share `alone`
      alone.eval();
      expect_near(norm(x), alone(x));
    }
  });
}

TEST(PartitionSampler, EveryExampleIsInOneShare) {
  for (const int64_t size : {0, 1, 7, 20})
    for (const int ranks : {1, 2, 3, 8}) {
      std::multiset<int64_t> all;
      int64_t total = 0;
      Generator unused;
      for (int rank = 0; rank < ranks; ++rank) {
        const PartitionSampler sampler(size, rank, ranks, {.seed = 5});
        const std::vector<int64_t> share = sampler.indices(2, unused);
        EXPECT_EQ(static_cast<int64_t>(share.size()), sampler.size());
        total += sampler.size();
        all.insert(share.begin(), share.end());
      }
      EXPECT_EQ(total, size);
      for (int64_t i = 0; i < size; ++i) EXPECT_EQ(all.count(i), 1u);
    }
  Generator unused;
  EXPECT_NE(PartitionSampler(50, 0, 2).indices(0, unused),
            PartitionSampler(50, 0, 2).indices(1, unused));
}

}  // namespace
}  // namespace tensora::testing
