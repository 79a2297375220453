#include "tensora/llm/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "../helpers.h"
#include "tensora/llm/sampling/candidates.h"
#include "toy_tokenizer.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using Logits = std::vector<float>;
using Tokens = std::vector<int32_t>;

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Everything off but what a test switches on.
SamplingOptions plain() {
  return {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 1};
}

int32_t sample(Sampler& sampler, Logits logits) { return sampler.sample(logits).token; }

// How often each token is drawn.
std::map<int32_t, double> frequencies(const SamplingOptions& options, const Logits& logits,
                                      int draws = 20000) {
  Sampler sampler(options, std::ssize(logits));
  std::map<int32_t, double> out;
  for (int i = 0; i < draws; ++i) out[sample(sampler, logits)] += 1.0 / draws;
  return out;
}

std::vector<int32_t> support(const SamplingOptions& options, const Logits& logits) {
  std::vector<int32_t> out;
  for (const auto& [token, share] : frequencies(options, logits, 3000)) out.push_back(token);
  return out;
}

Logits logs(const std::vector<double>& probabilities) {
  Logits out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

Logits random_logits(size_t size, uint32_t seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  Logits out(size);
  for (float& logit : out) logit = normal(random);
  return out;
}

TEST(SamplingOptions, EveryFieldIsChecked) {
  EXPECT_EQ(error_of([] { SamplingOptions{}.validate(); }), "");
  const auto refuses = [](auto change, const char* words) {
    SamplingOptions options;
    change(options);
    const std::string error = error_of([&] { options.validate(); });
    EXPECT_TRUE(contains(error, words)) << error << " lacks " << words;
  };
  refuses([](auto& o) { o.temperature = kNan; },
          "temperature must be a number that is not negative");
  refuses([](auto& o) { o.temperature = -0.5; }, "got -0.5");
  refuses([](auto& o) { o.temperature = std::numeric_limits<double>::infinity(); }, "temperature");
  refuses([](auto& o) { o.top_k = -1; }, "top_k must be a count");
  refuses([](auto& o) { o.top_p = 1.5; }, "top_p must be between 0 and 1, got 1.5");
  refuses([](auto& o) { o.min_p = -0.1; }, "min_p");
  refuses([](auto& o) { o.typical_p = kNan; }, "typical_p");
  refuses([](auto& o) { o.top_n_sigma = kNan; }, "top_n_sigma");
  refuses([](auto& o) { o.repeat_penalty = 0; }, "repeat_penalty must be a positive number, got 0");
  refuses([](auto& o) { o.repeat_last_n = -2; }, "repeat_last_n");
  refuses([](auto& o) { o.presence_penalty = kNan; }, "presence_penalty");
  refuses([](auto& o) { o.frequency_penalty = kNan; }, "frequency_penalty");
  refuses([](auto& o) { o.dry_multiplier = -1; }, "dry_multiplier");
  refuses([](auto& o) { o.dry_base = 0.5; }, "dry_base");
  refuses([](auto& o) { o.dry_allowed_length = 0; }, "dry_allowed_length");
  refuses([](auto& o) { o.dry_last_n = -7; }, "dry_last_n");
  refuses([](auto& o) { o.dry_breakers = {""}; }, "dry_breakers");
  refuses([](auto& o) { o.xtc_probability = 2; }, "xtc_probability");
  refuses([](auto& o) { o.xtc_threshold = -1; }, "xtc_threshold");
  refuses([](auto& o) { o.mirostat = 3; }, "mirostat must be 0 (off), 1 or 2, got 3");
  refuses([](auto& o) { o.mirostat_tau = kNan; }, "mirostat_tau");
  refuses([](auto& o) { o.mirostat_eta = -1; }, "mirostat_eta");
  refuses([](auto& o) { o.logit_bias = {{-1, 0.f}}; }, "got token -1");
  refuses([](auto& o) { o.logit_bias = {{3, NAN}}; }, "logit_bias of token 3");
  refuses([](auto& o) { o.top_logprobs = 21; }, "top_logprobs must be a count between 0 and 20");
  refuses([](auto& o) { o.grammar = o.json_schema = "x"; }, "got both");
  EXPECT_TRUE(contains(error_of([] { Sampler({.logit_bias = {{5, 1.f}}}, 5); }), "below 5"));
  EXPECT_TRUE(contains(error_of([] { Sampler({.grammar = "root ::= \"a\""}, 5); }), "tokenizer"));
  EXPECT_TRUE(contains(error_of([] { Sampler({}, 0); }), "vocabulary"));
}

TEST(Sampler, RefusesBadLogits) {
  Sampler sampler(plain(), 3);
  EXPECT_TRUE(contains(error_of([&] { sample(sampler, {1, 2}); }), "expected 3 logits"));
  EXPECT_TRUE(contains(error_of([&] { sample(sampler, {1, NAN, 0}); }), "for token 1"));
  EXPECT_TRUE(contains(error_of([&] { sample(sampler, {1, 0, INFINITY}); }), "for token 2"));
  EXPECT_TRUE(contains(error_of([&] {
                         sample(sampler, {kForbidden, kForbidden, kForbidden});
                       }),
                       "forbids all tokens"));
  EXPECT_TRUE(contains(error_of([&] { sampler.accept(3); }), "expected a token below 3, got 3"));
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  Sampler greedy({.temperature = 0}, 5);
  EXPECT_EQ(sample(greedy, {1, 3, 2, 3, 3}), 1);
  EXPECT_EQ(sample(greedy, {-0.f, 0.f, -1, -1, -1}), 0);
  EXPECT_EQ(sample(greedy, {kForbidden, kForbidden, -5, kForbidden, -5}), 2);
}

TEST(Sampler, DrawsTheDistribution) {
  const Logits logits = logs({0.5, 0.25, 0.15, 0.1});
  const auto shares = frequencies(plain(), logits, 100000);
  EXPECT_NEAR(shares.at(0), 0.5, 0.01);
  EXPECT_NEAR(shares.at(1), 0.25, 0.01);
  EXPECT_NEAR(shares.at(2), 0.15, 0.01);
  EXPECT_NEAR(shares.at(3), 0.1, 0.01);
  SamplingOptions cold = plain();
  cold.temperature = 0.5;  // probabilities squared
  const double sum = 0.25 + 0.0625 + 0.0225 + 0.01;
  const auto colder = frequencies(cold, logits, 100000);
  EXPECT_NEAR(colder.at(0), 0.25 / sum, 0.01);
  EXPECT_NEAR(colder.at(3), 0.01 / sum, 0.01);
  cold.temperature = 1e-30;  // as good as greedy, and no overflow
  EXPECT_EQ(support(cold, logits), Tokens{0});
}

TEST(Sampler, TruncationSteps) {
  const Logits logits = logs({0.1, 0.4, 0.25, 0.2, 0.05});
  const auto with = [&](auto change) {
    SamplingOptions options = plain();
    change(options);
    return support(options, logits);
  };
  EXPECT_EQ(with([](auto& o) { o.top_k = 2; }), (Tokens{1, 2}));
  EXPECT_EQ(with([](auto& o) { o.top_k = 100; }), (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(with([](auto& o) { o.top_p = 0.6; }), (Tokens{1, 2}));
  EXPECT_EQ(with([](auto& o) { o.top_p = 0; }), (Tokens{1}));
  EXPECT_EQ(with([](auto& o) { o.min_p = 0.45; }), (Tokens{1, 2, 3}));
  EXPECT_EQ(with([](auto& o) { o.min_p = 1; }), (Tokens{1}));
  // The entropy is 1.42 nats: surprises are 2.30, 0.92, 1.39, 1.61 and 3.00.
  EXPECT_EQ(with([](auto& o) { o.typical_p = 0.2; }), (Tokens{2}));
  EXPECT_EQ(with([](auto& o) { o.typical_p = 0.4; }), (Tokens{2, 3}));
  EXPECT_EQ(with([](auto& o) { o.typical_p = 0.8; }), (Tokens{1, 2, 3}));
  // Of those at least 0.2 probable, only the last stays.
  EXPECT_EQ(with([](auto& o) { o.xtc_probability = 1, o.xtc_threshold = 0.19; }),
            (Tokens{0, 3, 4}));
  EXPECT_EQ(with([](auto& o) { o.xtc_probability = 1, o.xtc_threshold = 0.5; }).size(), 5u);
  // The deviation of the logits is 0.72.
  EXPECT_EQ(with([](auto& o) { o.top_n_sigma = 1; }), (Tokens{1, 2, 3}));
  EXPECT_EQ(with([](auto& o) { o.top_n_sigma = 0.1; }), (Tokens{1}));
}

TEST(Sampler, XtcStrikesAsOftenAsItShould) {
  SamplingOptions options = plain();
  options.xtc_probability = 0.3;
  options.xtc_threshold = 0.3;
  const auto shares = frequencies(options, logs({0.6, 0.4}), 100000);
  EXPECT_NEAR(shares.at(0), 0.7 * 0.6, 0.01);
}

TEST(Sampler, SelectionIsThatOfASort) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Logits logits = random_logits(5000, seed);
    for (float& logit : logits) logit = std::round(logit * 8) / 8;  // with many ties
    if (seed % 3 == 0)
      for (size_t i = 0; i < logits.size(); i += 2) logits[i] = kForbidden;
    std::vector<int32_t> order;
    for (int32_t i = 0; i < 5000; ++i)
      if (logits[static_cast<size_t>(i)] > kForbidden) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    for (const int64_t k : {1, 40, 1000, 4999, 6000}) {
      Candidates candidates;
      candidates.select(logits, k, kForbidden);
      ASSERT_EQ(candidates.size(), std::min<int64_t>(k, std::ssize(order)));
      for (int64_t i = 0; i < candidates.size(); ++i)
        ASSERT_EQ(candidates.token(i), order[static_cast<size_t>(i)]) << seed << " " << k;
    }
    // The nucleus is a beginning of the same order.
    Candidates all;
    all.select(logits, 0, kForbidden);
    double sum = 0, mass = 0;
    for (const int32_t i : order) sum += std::exp(logits[static_cast<size_t>(i)]);
    size_t count = 0;
    while (mass < 0.9 * sum) mass += std::exp(logits[static_cast<size_t>(order[count++])]);
    all.top_p(0.9);
    EXPECT_NEAR(static_cast<double>(all.size()), static_cast<double>(count), 1);
    std::vector<int32_t> kept, expected(order.begin(), order.begin() + all.size());
    for (int64_t i = 0; i < all.size(); ++i) kept.push_back(all.token(i));
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(kept, expected);
  }
}

TEST(Sampler, Penalties) {
  SamplingOptions options{.temperature = 0,
                          .repeat_penalty = 2,
                          .repeat_last_n = 2,
                          .presence_penalty = 0.25,
                          .frequency_penalty = 0.5};
  Sampler sampler(options, 4);
  sampler.accept_prompt(Tokens{3, 0, 0});
  Logits logits = {4, 1, -1, 3};
  EXPECT_EQ(sampler.sample(logits).token, 3);  // forgotten: only two tokens are looked at
  EXPECT_EQ(logits, (Logits{4 / 2.f - 1 - 0.25f, 1, -1, 3}));
  sampler.accept(2);
  logits = {4, 1, -1, 3};
  sampler.sample(logits);
  EXPECT_EQ(logits, (Logits{4 / 2.f - 0.75f, 1, -1 * 2 - 0.75f, 3}));
  options.repeat_last_n = 0;
  Sampler off(options, 4);
  off.accept(0);
  EXPECT_EQ(sample(off, {4, 1, -1, 3}), 0);
}

TEST(Sampler, DryPunishesWhatProlongsARepetition) {
  const auto tokenizer = std::make_shared<ToyTokenizer>(
      std::vector<std::string>{"a", "b", "c", "d", "x\ny", "st", "op"});
  const auto penalty = [&](const Tokens& tokens, int32_t token, SamplingOptions options) {
    options.temperature = 0;
    options.dry_multiplier = 0.5;
    Sampler sampler(options, tokenizer->vocab_size(), tokenizer);
    sampler.accept_prompt(tokens);
    Logits logits(static_cast<size_t>(tokenizer->vocab_size()));
    sampler.sample(logits);
    return -logits[static_cast<size_t>(token)];
  };
  const int32_t a = 2, b = 3, c = 4, d = 5, line = 6, st = 7, op = 8;
  EXPECT_FLOAT_EQ(penalty({a, b, c, d, a, b}, c, {}), 0.5f);
  EXPECT_FLOAT_EQ(penalty({a, b, c, d, a, b, c}, d, {}), 0.5f * 1.75f);
  EXPECT_FLOAT_EQ(penalty({a, b, c, d, a, b, c}, d, {.dry_allowed_length = 3}), 0.5f);
  EXPECT_FLOAT_EQ(penalty({a, b, c, d, a}, b, {}), 0);
  EXPECT_FLOAT_EQ(penalty({a, b, c, d, a, b}, d, {}), 0);
  EXPECT_FLOAT_EQ(penalty({a, b, c, d, a, b}, c, {.dry_last_n = 4}), 0);
  // A breaker within a token, and one that spans two.
  EXPECT_FLOAT_EQ(penalty({a, line, b, c, d, a, line, b}, c, {}), 0);
  EXPECT_FLOAT_EQ(penalty({a, line, b, c, d, a, line, b, c}, d, {}), 0.5f);
  EXPECT_FLOAT_EQ(penalty({st, op, a, b, st, op, a}, b, {.dry_breakers = {"stop"}}), 0);
  EXPECT_FLOAT_EQ(penalty({st, op, a, b, st, op, a}, b, {.dry_breakers = {"stoop"}}), 0.5f * 1.75f);
  EXPECT_TRUE(std::isfinite(penalty(Tokens(3000, a), a, {})));
}

TEST(Sampler, LogitBias) {
  SamplingOptions options = plain();
  options.logit_bias = {{0, kForbidden}, {2, 100.f}};
  EXPECT_EQ(support(options, {50, 1, 1, 1}), Tokens{2});
  options.logit_bias = {{2, std::numeric_limits<float>::max()}, {1, -3e38f}};
  EXPECT_EQ(support(options, {50, 1, 1, 1}), Tokens{2});
}

TEST(Sampler, SeedsAndClones) {
  const Logits logits = random_logits(1000, 3);
  SamplingOptions options;
  const auto run = [&](Sampler& sampler, int count) {
    Tokens out;
    for (int i = 0; i < count; ++i) {
      out.push_back(sample(sampler, logits));
      sampler.accept(out.back());
    }
    return out;
  };
  Sampler first(options, 1000);
  options.seed = first.seed();
  options.repeat_penalty = 1.1;
  Sampler again(options, 1000), third(options, 1000);
  EXPECT_EQ(again.seed(), first.seed());
  const Tokens tokens = run(again, 50);
  EXPECT_EQ(run(third, 50), tokens);
  EXPECT_NE(Sampler({}, 10).seed(), Sampler({}, 10).seed());
  Sampler copy = again.clone();
  EXPECT_EQ(run(copy, 30), run(again, 30));
  options.seed = first.seed() + 1;
  Sampler other(options, 1000);
  EXPECT_NE(run(other, 50), tokens);
}

TEST(Sampler, Logprobs) {
  SamplingOptions options = plain();
  options.temperature = 0;
  options.logit_bias = {{1, kForbidden}};
  Logits logits = logs({0.1, 0.6, 0.3});
  Sampler without(options, 3);
  EXPECT_TRUE(std::isnan(without.sample(logits).logprob));
  options.logprobs = true;
  options.top_logprobs = 2;
  Sampler with(options, 3);
  logits = logs({0.1, 0.6, 0.3});
  const Sampled sampled = with.sample(logits);
  EXPECT_EQ(sampled.token, 2);  // the logprobs are the model's own, before the bias
  EXPECT_NEAR(sampled.logprob, std::log(0.3), 1e-6);
  ASSERT_EQ(sampled.top.size(), 2u);
  EXPECT_EQ(sampled.top[0].token, 1);
  EXPECT_NEAR(sampled.top[0].logprob, std::log(0.6), 1e-6);
  EXPECT_EQ(sampled.top[1].token, 2);
  options.top_logprobs = 20;
  Sampler more(options, 3);
  logits = logs({0.1, 0.6, 0.3});
  EXPECT_EQ(more.sample(logits).top.size(), 3u);
}

TEST(Sampler, MirostatHoldsTheSurprise) {
  const Logits logits = random_logits(20000, 5, 2);
  for (const int64_t version : {1, 2})
    for (const double tau : {3.0, 6.0}) {
      SamplingOptions options = plain();
      options.mirostat = version;
      options.mirostat_tau = tau;
      Sampler sampler(options, 20000);
      double sum = 0;
      for (const float logit : logits) sum += std::exp(logit);
      double surprise = 0;
      constexpr int kDraws = 1500;
      for (int i = 0; i < kDraws; ++i) {
        const int32_t token = sample(sampler, logits);
        surprise += std::log2(sum) - logits[static_cast<size_t>(token)] / std::log(2.0);
      }
      // The surprise that is held is that among the kept tokens, which is below the model's own.
      EXPECT_GT(surprise / kDraws, tau - 0.5) << version;
    }
  SamplingOptions options = plain();
  options.mirostat = 1;
  EXPECT_EQ(frequencies(options, Logits(4, 1.f), 500).size(), 4u);  // flat: nothing to estimate
}

TEST(Sampler, ExtremesDoNotBreakIt) {
  const Logits wide = {3e38f, -3e38f, 0, 1e-40f, 2.9e38f};
  for (const double temperature : {1e-300, 1e-3, 1.0, 1e30})
    for (int variant = 0; variant < 64; ++variant) {
      SamplingOptions options = plain();
      options.temperature = temperature;
      if (variant & 1) options.top_k = 3;
      if (variant & 2) options.top_p = 0.9;
      if (variant & 4) options.min_p = 0.1;
      if (variant & 8) options.typical_p = 0.5;
      if (variant & 16) options.top_n_sigma = 1, options.xtc_probability = 1;
      if (variant & 32) options.mirostat = 1 + variant % 2;
      options.repeat_penalty = 1e30;
      options.dry_multiplier = 1e30;
      Sampler sampler(options, 5);
      for (int i = 0; i < 5; ++i) {
        const int32_t token = sample(sampler, wide);
        ASSERT_TRUE(token >= 0 && token < 5);
        sampler.accept(token);
      }
    }
}

TEST(Sampler, RandomOptionsStayWithinTheAllowed) {
  std::mt19937 random(7);
  const auto part = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + random() % 300;
    SamplingOptions options{.temperature = 2 * part(),
                            .top_k = static_cast<int64_t>(random() % 50),
                            .top_p = part(),
                            .min_p = part(),
                            .typical_p = part(),
                            .top_n_sigma = 3 * part(),
                            .repeat_penalty = 0.5 + part(),
                            .presence_penalty = part(),
                            .frequency_penalty = part(),
                            .dry_multiplier = part(),
                            .xtc_probability = part(),
                            .xtc_threshold = part(),
                            .mirostat = static_cast<int64_t>(random() % 3),
                            .seed = round};
    Sampler sampler(options, static_cast<int64_t>(size));
    Logits logits = random_logits(size, static_cast<uint32_t>(round));
    const size_t allowed = random() % size;
    for (size_t i = 0; i < size; ++i)
      if (i != allowed && part() < 0.3) logits[i] = kForbidden;
    for (int i = 0; i < 20; ++i) {
      const int32_t token = sample(sampler, logits);
      ASSERT_GT(logits[static_cast<size_t>(token)], kForbidden);
      sampler.accept(token);
    }
  }
}

}  // namespace
}  // namespace tensora::llm
