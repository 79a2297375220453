#include <cmath>
#include <random>

#include "../helpers.h"
#include "tensora/llm/sampling/sampler.h"
#include "tensora/ops.h"
#include "tensora/ops/sampling/sample_tokens.h"

namespace tensora::llm {
namespace {

Tensor numbers_of(const TokenChoice& choice) {
  const Tensor out = empty({1, 3}, {.dtype = kFloat64});
  double* const to = out.data_ptr<double>();
  to[0] = choice.temperature, to[1] = choice.top_p, to[2] = choice.min_p;
  return out;
}
Tensor integers_of(const TokenChoice& choice) {
  const Tensor out = empty({1, 3}, {.dtype = kInt64});
  int64_t* const to = out.data_ptr<int64_t>();
  to[0] = choice.top_k, to[1] = choice.seed, to[2] = choice.draw;
  return out;
}

int64_t by_op(const Tensor& logits, const TokenChoice& choice) {
  return sample_tokens(logits, numbers_of(choice), integers_of(choice)).item<int64_t>();
}

// One in four logits is that of its neighbour, so that there are ties.
std::vector<float> random_logits(size_t size, std::mt19937& random, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(size);
  for (size_t i = 0; i < size; ++i)
    out[i] = i > 0 && random() % 4 == 0 ? out[i - 1] : normal(random);
  return out;
}

SamplingOptions random_options(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<double> values) {
    return values.begin()[random() % values.size()];
  };
  return {.temperature = pick({0, 0.01, 0.7, 1, 3}),
          .top_k = static_cast<int64_t>(pick({1, 2, 40, 300, 1024})),
          .top_p = pick({1, 0.95, 0.5, 0}),
          .min_p = pick({0, 0.05, 0.5, 1}),
          .seed = random()};
}

TEST(TokenChoice, TheOpChoosesWhatTheSamplerChooses) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 400; ++trial) {
    const size_t size = trial % 3 == 0 ? 30 : 4000;
    const SamplingOptions options = random_options(random);
    Sampler sampler(options, static_cast<int64_t>(size));
    for (int64_t draw = 0; draw < 3; ++draw) {
      std::vector<float> logits = random_logits(size, random, trial % 2 ? 1.0f : 6.0f);
      const Tensor row = empty({1, static_cast<int64_t>(size)});
      std::copy(logits.begin(), logits.end(), row.data_ptr<float>());
      const auto choice = sampler.choice();
      ASSERT_TRUE(choice.has_value());
      EXPECT_EQ(by_op(row, *choice), sampler.sample(logits).token)
          << "temperature " << options.temperature << ", top_k " << options.top_k << ", top_p "
          << options.top_p << ", min_p " << options.min_p;
    }
  }
}

TEST(TokenChoice, CountsLikeSampling) {
  const SamplingOptions options{.seed = 3};
  Sampler one(options, 10), other(options, 10);
  std::vector<float> logits(10, 1.0f);
  one.sample(logits);
  other.count_choice();
  EXPECT_EQ(one.choice()->draw, 1);
  EXPECT_EQ(other.choice()->draw, 1);
  EXPECT_EQ(other.choice(2)->draw, 3);
  EXPECT_EQ(other.choice()->seed, 3);
  Sampler greedy({.temperature = 0}, 10);
  greedy.count_choice();
  EXPECT_EQ(greedy.choice()->draw, 0);
}

TEST(TokenChoice, StepsThatTheOpLacksStayOnTheHost) {
  const auto chooses = [](const SamplingOptions& options) {
    return Sampler(options, 100).choice().has_value();
  };
  EXPECT_TRUE(chooses({}));
  EXPECT_TRUE(chooses({.temperature = 0, .top_k = 0}));
  EXPECT_FALSE(chooses({.top_k = 0}));
  EXPECT_FALSE(chooses({.top_k = 1025}));
  EXPECT_FALSE(chooses({.typical_p = 0.9}));
  EXPECT_FALSE(chooses({.top_n_sigma = 1}));
  EXPECT_FALSE(chooses({.repeat_penalty = 1.1}));
  EXPECT_FALSE(chooses({.presence_penalty = 0.1}));
  EXPECT_FALSE(chooses({.frequency_penalty = 0.1}));
  EXPECT_FALSE(chooses({.dry_multiplier = 0.8}));
  EXPECT_FALSE(chooses({.xtc_probability = 0.5}));
  EXPECT_FALSE(chooses({.mirostat = 2}));
  EXPECT_FALSE(chooses({.logit_bias = {{3, 1.0f}}}));
  EXPECT_FALSE(chooses({.logprobs = true}));
  EXPECT_FALSE(chooses({.top_logprobs = 2}));
}

}  // namespace
}  // namespace tensora::llm
