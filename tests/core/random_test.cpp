#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains, testing::error_of;

// Known answers of Philox 4x32-10 from its authors' test vectors, in our arrangement: counter words
// 2 and 3 are zero, key and counter are 64-bit numbers.
TEST(Philox, KnownAnswers) {
  const PhiloxWords zero = philox(0, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
}

TEST(Philox, CountersOfWholeBlocks) {
  EXPECT_EQ(philox_counters(0, 4), 0u);
  EXPECT_EQ(philox_counters(1, 4), 32u);
  EXPECT_EQ(philox_counters(128, 4), 32u);
  EXPECT_EQ(philox_counters(129, 4), 64u);
  EXPECT_EQ(philox_counters(129, 2), 96u);
}

TEST(Generator, SeedDecidesTheStream) {
  manual_seed(3);
  const auto first = to_vector<float>(randn({100})), second = to_vector<float>(randn({100}));
  EXPECT_NE(first, second);
  manual_seed(3);
  EXPECT_EQ(to_vector<float>(randn({100})), first);
  EXPECT_EQ(to_vector<float>(randn({100})), second);
  manual_seed(4);
  EXPECT_NE(to_vector<float>(randn({100})), first);
}

TEST(Generator, StateCanBeSavedAndRestored) {
  manual_seed(11);
  (void)rand({1000});
  Generator& generator = default_generator();
  const PhiloxState state = generator.state();
  const Generator::Bytes bytes = generator.state_bytes();
  const Tensor as_tensor = generator.get_state();
  const auto expected = to_vector<double>(rand({50}, {.dtype = kFloat64}));
  generator.set_state(state);
  EXPECT_EQ(to_vector<double>(rand({50}, {.dtype = kFloat64})), expected);
  generator.set_state_bytes(bytes);
  EXPECT_EQ(to_vector<double>(rand({50}, {.dtype = kFloat64})), expected);
  generator.set_state(as_tensor);
  EXPECT_EQ(to_vector<double>(rand({50}, {.dtype = kFloat64})), expected);
  EXPECT_TRUE(contains(error_of([&] { generator.set_state(zeros({16})); }), "uint8"));
  EXPECT_TRUE(
      contains(error_of([&] { generator.set_state(zeros({3}, {.dtype = kUInt8})); }), "16"));
}

TEST(Generator, ForksAreIndependentAndReproducible) {
  Generator a(5), b(5);
  Generator fork_a = a.fork(), fork_b = b.fork(), second = a.fork();
  EXPECT_EQ(fork_a.initial_seed(), fork_b.initial_seed());
  EXPECT_NE(fork_a.initial_seed(), second.initial_seed());
  EXPECT_NE(fork_a.initial_seed(), a.initial_seed());
}

TEST(Generator, ScopeChoosesTheGeneratorOfTheThread) {
  manual_seed(1);
  const PhiloxState before = default_generator().state();
  Generator mine(9);
  std::vector<float> drawn;
  {
    const GeneratorScope scope(mine);
    drawn = to_vector<float>(rand({10}));
  }
  EXPECT_EQ(default_generator().state().offset, before.offset);
  manual_seed(9);
  EXPECT_EQ(to_vector<float>(rand({10})), drawn);
}

TEST(Generator, ThreadsNeverShareNumbers) {
  manual_seed(2);
  std::vector<std::vector<double>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn)
    threads.emplace_back([&mine] {
      for (int i = 0; i < 50; ++i) {
        const auto values = to_vector<double>(rand({10}, {.dtype = kFloat64}));
        mine.insert(mine.end(), values.begin(), values.end());
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& mine : drawn) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(Generator, SeedFromTheSystemDiffers) {
  Generator a, b;
  EXPECT_NE(a.seed(), b.seed());
}

struct Moments {
  double mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
};

Moments moments_of(const Tensor& tensor) {
  Moments m;
  const auto values = to_vector<double>(tensor);
  const double count = static_cast<double>(values.size());
  for (double value : values) {
    m.mean += value / count;
    m.low = std::min(m.low, value);
    m.high = std::max(m.high, value);
  }
  for (double value : values) m.variance += (value - m.mean) * (value - m.mean) / count;
  return m;
}

// A million values: means are good to about 0.001 standard deviations. Five of those are allowed.
TEST(Random, MomentsAndRanges) {
  manual_seed(0);
  const Shape sizes{1000, 1000};
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const double coarse = dtype == kBFloat16 ? 0.004 : dtype == kFloat16 ? 0.0005 : 0;
    const TensorOptions options{.dtype = dtype};
    const Moments uniform = moments_of(rand(sizes, options));
    EXPECT_NEAR(uniform.mean, 0.5, 0.0015 + coarse) << name(dtype);
    EXPECT_NEAR(uniform.variance, 1 / 12., 0.0005 + coarse) << name(dtype);
    EXPECT_GE(uniform.low, 0) << name(dtype);
    EXPECT_LT(uniform.high, 1) << name(dtype);
    const Moments normal = moments_of(randn(sizes, options));
    EXPECT_NEAR(normal.mean, 0, 0.005) << name(dtype);
    EXPECT_NEAR(normal.variance, 1, 0.008) << name(dtype);
    EXPECT_GT(normal.high, 4.2) << name(dtype);
    EXPECT_LT(normal.low, -4.2) << name(dtype);
    const Moments exponential = moments_of(exponential_(empty(sizes, options), 2));
    EXPECT_NEAR(exponential.mean, 0.5, 0.0025 + coarse) << name(dtype);
    EXPECT_NEAR(exponential.variance, 0.25, 0.005 + coarse) << name(dtype);
    EXPECT_GE(exponential.low, 0) << name(dtype);
  }
  const Moments die = moments_of(randint(1, 7, sizes));
  EXPECT_NEAR(die.mean, 3.5, 0.009);
  EXPECT_EQ(die.low, 1);
  EXPECT_EQ(die.high, 6);
  EXPECT_NEAR(moments_of(bernoulli(empty(sizes), 0.2)).mean, 0.2, 0.002);
  EXPECT_NEAR(moments_of(bernoulli(full(sizes, 0.7))).mean, 0.7, 0.0025);
}

TEST(Random, NormalFollowsItsDistributionFunction) {
  manual_seed(0);
  auto values = to_vector<double>(randn({200'000}));
  std::sort(values.begin(), values.end());
  double distance = 0;  // Kolmogorov and Smirnov's
  for (size_t i = 0; i < values.size(); ++i) {
    const double below = 0.5 * std::erfc(-values[i] / std::sqrt(2.));
    distance = std::max(distance, std::abs(below - double(i) / double(values.size())));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(double(values.size())));  // one in a thousand
}

TEST(Random, NeighboursAreUncorrelated) {
  manual_seed(0);
  const auto values = to_vector<double>(randn({1 << 18}));
  for (const size_t lag : {1, 16, 32, 64, 96, 128}) {
    double sum = 0;
    for (size_t i = 0; i + lag < values.size(); ++i) sum += values[i] * values[i + lag];
    EXPECT_NEAR(sum / double(values.size() - lag), 0, 0.01) << lag;
  }
}

TEST(Random, IntegersOfTheWholeRange) {
  manual_seed(0);
  const auto wide = to_vector<int64_t>(randint(INT64_MIN, INT64_MAX, {1000}));
  int negative = 0;
  for (int64_t value : wide) negative += value < 0;
  EXPECT_NEAR(negative, 500, 80);
}

TEST(Random, RequiresGradMakesALeaf) {
  const Tensor x = randn({3}, {.requires_grad = true});
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
}

TEST(Random, InPlaceCutsTheHistory) {
  const Tensor x = ones({3}, {.requires_grad = true});
  const Tensor y = x * 2;
  normal_(y);
  (y + x).backward(ones({3}));
  EXPECT_EQ(to_vector<float>(x.grad()), (std::vector<float>{1, 1, 1}));
}

TEST(Random, NormalOfTensors) {
  manual_seed(0);
  const Tensor mean = arange(0, 1000, {.dtype = kFloat64});
  const Moments m = moments_of(normal(mean, full({1000, 1}, 0.5, {.dtype = kFloat64})) - mean);
  EXPECT_NEAR(m.mean, 0, 0.004);
  EXPECT_NEAR(m.variance, 0.25, 0.003);
  EXPECT_EQ(normal(0, 1, {2, 3}).sizes(), (Shape{2, 3}));
  EXPECT_EQ(normal(mean).sizes(), mean.sizes());
  EXPECT_EQ(normal(2.0, mean).dtype(), kFloat64);
}

TEST(Random, LikeFormsKeepShapeAndDtype) {
  const Tensor x = empty({2, 3}, {.dtype = kFloat64});
  EXPECT_EQ(rand_like(x).dtype(), kFloat64);
  EXPECT_EQ(randn_like(x, {.dtype = kFloat16}).dtype(), kFloat16);
  EXPECT_EQ(randint_like(x, 5).dtype(), kFloat64);
  EXPECT_EQ(to_vector<double>(randint_like(x, 5, 6)), std::vector<double>(6, 5));
}

TEST(Random, PermutationsAreUniform) {
  manual_seed(0);
  std::map<std::vector<int64_t>, int> seen;
  for (int i = 0; i < 2400; ++i) ++seen[to_vector<int64_t>(randperm(4))];
  EXPECT_EQ(seen.size(), 24u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 100, 50);
}

TEST(Random, LargePermutationsHoldEveryNumberOnce) {
  for (const int64_t n : {2'049, 9'000, 200'000, 3'000'000}) {
    auto order = to_vector<int64_t>(randperm(n));
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
}

// What a seed gave once it gives on every device and in every version.
TEST(Random, SeedsKeepTheirPermutationsAndDraws) {
  const auto ends = [](int64_t n) {
    manual_seed(7);
    const auto order = to_vector<int64_t>(randperm(n));
    return std::vector<int64_t>{order[0], order[1], order[2], order.back()};
  };
  EXPECT_EQ(ends(30), (std::vector<int64_t>{13, 2, 8, 26}));
  EXPECT_EQ(ends(3'000), (std::vector<int64_t>{507, 886, 2196, 2294}));
  EXPECT_EQ(ends(300'000), (std::vector<int64_t>{269320, 123469, 138802, 57454}));
  manual_seed(7);
  const Tensor weights = arange(1, 1001).to(kFloat32);
  EXPECT_EQ(to_vector<int64_t>(multinomial(weights, 5, true)),
            (std::vector<int64_t>{977, 637, 77, 624, 538}));
}

TEST(Random, MultinomialFollowsTheWeights) {
  manual_seed(0);
  const Tensor weights = tensor({1., 0., 3., 6.});
  std::vector<double> count(4);
  for (int64_t i : to_vector<int64_t>(multinomial(weights, 100'000, true)))
    ++count[static_cast<size_t>(i)];
  EXPECT_NEAR(count[0] / 1e5, 0.1, 0.006);
  EXPECT_EQ(count[1], 0);
  EXPECT_NEAR(count[2] / 1e5, 0.3, 0.01);
  EXPECT_NEAR(count[3] / 1e5, 0.6, 0.01);
}

TEST(Random, MultinomialWithoutReplacementDrawsByWeightAndNoneTwice) {
  manual_seed(0);
  const Tensor rows = as_strided(tensor({1., 3., 6.}), {20'000, 3}, {0, 1});
  const auto drawn = to_vector<int64_t>(multinomial(rows, 2));
  std::vector<double> first(3);
  for (size_t i = 0; i < drawn.size(); i += 2) {
    ASSERT_NE(drawn[i], drawn[i + 1]);
    ++first[static_cast<size_t>(drawn[i])];
  }
  EXPECT_NEAR(first[0] / 2e4, 0.1, 0.012);
  EXPECT_NEAR(first[1] / 2e4, 0.3, 0.02);
  EXPECT_NEAR(first[2] / 2e4, 0.6, 0.02);
}

}  // namespace
}  // namespace tensora
