#include <algorithm>
#include <numeric>
#include <set>

#include "tensora/data.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using namespace tensora::data;
using Indices = std::vector<int64_t>;

Indices draw(const Sampler& sampler, uint64_t seed = 0, int64_t epoch = 0) {
  Generator generator(seed);
  const Indices indices = sampler.indices(epoch, generator);
  EXPECT_EQ(static_cast<int64_t>(indices.size()), sampler.size());
  return indices;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

Indices up_to(int64_t count) {
  Indices result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

TEST(Sampler, Sequential) {
  EXPECT_EQ(draw(SequentialSampler(4)), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(draw(SequentialSampler(0)), Indices());
}

TEST(Sampler, RandomIsAPermutation) {
  const RandomSampler sampler(100);
  EXPECT_EQ(sorted(draw(sampler)), up_to(100));
  EXPECT_EQ(draw(sampler, 1), draw(sampler, 1));
  EXPECT_NE(draw(sampler, 1), draw(sampler, 2));
}

TEST(Sampler, RandomWithNumSamples) {
  const Indices few = draw(RandomSampler(100, {.num_samples = 10}));
  EXPECT_EQ(std::set<int64_t>(few.begin(), few.end()).size(), 10u);
  // More than there are: whole permutations, one after the other, as in PyTorch.
  const Indices many = draw(RandomSampler(10, {.num_samples = 25}));
  EXPECT_EQ(sorted(Indices(many.begin(), many.begin() + 10)), up_to(10));
  EXPECT_EQ(sorted(Indices(many.begin() + 10, many.begin() + 20)), up_to(10));
}

TEST(Sampler, RandomWithReplacement) {
  const Indices drawn = draw(RandomSampler(10, {.replacement = true, .num_samples = 10000}));
  std::vector<int> counts(10);
  for (const int64_t index : drawn) ++counts.at(static_cast<size_t>(index));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Sampler, Weighted) {
  const Indices drawn = draw(WeightedRandomSampler({1, 0, 3}, 8000));
  std::vector<int> counts(3);
  for (const int64_t index : drawn) ++counts.at(static_cast<size_t>(index));
  EXPECT_NEAR(counts[0], 2000, 200);
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2], 6000, 200);
}

TEST(Sampler, WeightedWithoutReplacement) {
  int heavy_first = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Indices drawn = draw(WeightedRandomSampler({1, 0, 3}, 2, {.replacement = false}), seed);
    EXPECT_EQ(sorted(drawn), (Indices{0, 2}));
    heavy_first += drawn[0] == 2;
  }
  EXPECT_NEAR(heavy_first, 375, 50);
}

// What PyTorch's sampler gives without shuffling.
TEST(Sampler, DistributedSharesAsPyTorchDoes) {
  const auto share = [](int64_t size, int64_t replicas, int64_t rank, bool drop_last) {
    return draw(DistributedSampler(
        size, {.num_replicas = replicas, .rank = rank, .shuffle = false, .drop_last = drop_last}));
  };
  EXPECT_EQ(share(10, 3, 0, false), (Indices{0, 3, 6, 9}));
  EXPECT_EQ(share(10, 3, 1, false), (Indices{1, 4, 7, 0}));
  EXPECT_EQ(share(10, 3, 2, false), (Indices{2, 5, 8, 1}));
  EXPECT_EQ(share(10, 3, 2, true), (Indices{2, 5, 8}));
  EXPECT_EQ(share(2, 5, 4, false), (Indices{0}));
  EXPECT_EQ(share(2, 5, 4, true), (Indices{}));
}

TEST(Sampler, DistributedSharesOneOrder) {
  const auto share = [](int64_t rank, int64_t epoch, uint64_t generator_seed) {
    return draw(DistributedSampler(100, {.num_replicas = 4, .rank = rank}), generator_seed, epoch);
  };
  Indices all;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const Indices part = share(rank, 3, static_cast<uint64_t>(rank));
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(sorted(all), up_to(100));
  EXPECT_NE(share(0, 0, 0), share(0, 1, 0));
}

TEST(Sampler, Batches) {
  const auto ends = [](int64_t size, int64_t batch_size, bool drop_last) {
    const BatchSampler sampler(std::make_shared<SequentialSampler>(size), batch_size,
                               {.drop_last = drop_last});
    Generator generator;
    const BatchPlan plan = sampler.plan(0, generator);
    EXPECT_EQ(static_cast<int64_t>(plan.size()), sampler.size());
    return plan.ends;
  };
  using Ends = std::vector<size_t>;
  EXPECT_EQ(ends(7, 3, false), (Ends{3, 6, 7}));
  EXPECT_EQ(ends(7, 3, true), (Ends{3, 6}));
  EXPECT_EQ(ends(6, 3, false), (Ends{3, 6}));
  EXPECT_EQ(ends(2, 3, true), (Ends{}));
  EXPECT_EQ(ends(0, 3, false), (Ends{}));
}

TEST(Sampler, Mistakes) {
  const auto says = [](auto&& body, std::string_view part) {
    EXPECT_TRUE(contains(error_of(body), part)) << error_of(body);
  };
  says([] { RandomSampler(0); }, "a data set with examples");
  says([] { RandomSampler(3, {.num_samples = -1}); }, "got -1");
  says([] { WeightedRandomSampler({1, -1}, 2); }, "got -1 at index 1");
  says([] { WeightedRandomSampler({0, 0}, 2); }, "above 0");
  says([] { WeightedRandomSampler({1, 0}, 2, {.replacement = false}); }, "cannot draw 2");
  says([] { WeightedRandomSampler({1}, 0); }, "num_samples above 0");
  says([] { DistributedSampler(10, {.num_replicas = 2, .rank = 2}); }, "a rank from 0 to 1, got 2");
  says([] { BatchSampler(nullptr, 2); }, "null");
  says([] { BatchSampler(std::make_shared<SequentialSampler>(3), 0); }, "batch_size above 0");
}

}  // namespace
}  // namespace tensora::testing
