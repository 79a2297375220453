#include "tensora/llm/rope_table.h"

#include <cmath>

#include "../helpers.h"
#include "random_weights.h"
#include "tensora/llm/registry.h"

namespace tensora::llm {
namespace {

using namespace testing;

/// By how much each frequency is lower than without scaling.
std::vector<double> divisors(const ModelConfig& config) {
  const auto plain =
      nn::RotaryEmbedding(config.rotary_dim, {.base = config.rope.base}).frequencies(1).first;
  const auto scaled = nn::RotaryEmbedding(config.rotary_dim, config.rope).frequencies(1).first;
  std::vector<double> result;
  for (size_t i = 0; i < plain.size(); ++i)
    result.push_back(static_cast<double>(plain[i]) / static_cast<double>(scaled[i]));
  return result;
}

// What files of these models hold as rope_freqs.weight.
TEST(RopeTable, DivisorsOfLlama3) {
  struct Row {
    const char* name;
    size_t ones;
    std::vector<double> between;
    double rest;
  };
  for (const Row& row :
       {Row{"llama3-8b", 29, {1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327}, 8},
        Row{"llama3-1b", 15, {1.651329, 3.292262, 9.666729}, 32}}) {
    const std::vector<double> got = divisors(find_registered(row.name).config());
    for (size_t i = 0; i < got.size(); ++i) {
      const double expected = i < row.ones                        ? 1
                              : i < row.ones + row.between.size() ? row.between[i - row.ones]
                                                                  : row.rest;
      EXPECT_NEAR(got[i], expected, expected * 2e-6) << row.name << " " << i;
    }
  }
}

TEST(RopeTable, CosinesThenSines) {
  Metadata data = small_metadata("llama");
  const ModelConfig config = checked_config(data);
  const Tensor table = rope_table(config, RopeKind::global, 40, 40, {});
  EXPECT_EQ(table.sizes(), (Shape{40, 16}));
  for (int64_t p = 0; p < 40; ++p)
    for (int64_t i = 0; i < 8; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -2 * static_cast<double>(i) / 16);
      EXPECT_NEAR(table.at<float>({p, i}), std::cos(angle), 1e-5);
      EXPECT_NEAR(table.at<float>({p, i + 8}), std::sin(angle), 1e-5);
    }
}

TEST(RopeTable, LinearAndLocal) {
  Metadata data = small_metadata("gemma3");
  data.set("gemma3.rope.freq_base", 1e6);
  data.set("gemma3.rope.scaling.type", "linear");
  data.set("gemma3.rope.scaling.factor", 8.0);
  data.set("gemma3.attention.sliding_window", 4);
  const ModelConfig config = checked_config(data);
  const Tensor global = rope_table(config, RopeKind::global, 9, 9, {});
  const Tensor local = rope_table(config, RopeKind::local, 9, 9, {});
  EXPECT_NEAR(global.at<float>({8, 8}), std::sin(1.0), 1e-6);
  EXPECT_NEAR(local.at<float>({1, 8}), std::sin(1.0), 1e-6);
  EXPECT_NEAR(local.at<float>({1, 9}), std::sin(std::pow(10000.0, -2.0 / 16)), 1e-6);
}

// The magnitude is in the table, once.
TEST(RopeTable, Yarn) {
  Metadata data = small_metadata("llama");
  data.set("llama.rope.scaling.type", "yarn");
  data.set("llama.rope.scaling.factor", 4.0);
  data.set("llama.rope.scaling.original_context_length", 16);
  const Tensor table = rope_table(checked_config(data), RopeKind::global, 2, 2, {});
  EXPECT_NEAR(table.at<float>({0, 0}), 1 + 0.1 * std::log(4.0), 1e-6);
  const double strength = 1 + 0.1 * std::log(4.0);
  // Pair 7 turns once in 2π · 3162 positions, far beyond 16: it is slowed by the whole factor.
  EXPECT_NEAR(table.at<float>({1, 15}), strength * std::sin(std::pow(10000.0, -14.0 / 16) / 4),
              1e-7);
}

TEST(RopeTable, LongropeDependsOnTheLength) {
  ModelConfig config = checked_config(small_metadata("phi3"));
  config.rope.scaling = {.type = "longrope",
                         .original_max_positions = 16,
                         .attention_factor = 1.5,
                         .short_factor = std::vector<double>(8, 1.0),
                         .long_factor = std::vector<double>(8, 4.0)};
  config.validate();
  EXPECT_NEAR(rope_table(config, RopeKind::global, 20, 16, {}).at<float>({1, 8}),
              1.5 * std::sin(1.0), 1e-6);
  EXPECT_NEAR(rope_table(config, RopeKind::global, 20, 17, {}).at<float>({1, 8}),
              1.5 * std::sin(0.25), 1e-6);
}

}  // namespace
}  // namespace tensora::llm
