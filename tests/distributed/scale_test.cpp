// Predictions of `tensora scale`: against arithmetic, and against published figures.
#include "tensora/distributed/scale.h"

#include <array>
#include <cmath>

#include "tensora/base/error_kinds.h"
#include "tensora/distributed/threads.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using distributed::collective_seconds;
using distributed::ScaleJob;
using distributed::ScaleLayout;
using distributed::ScaleMachine;
using distributed::ScaleModel;
using distributed::ScalePrediction;

ScalePrediction predict(const ScaleJob& job, const std::string& layout, int ranks,
                        const ScaleMachine& machine = ScaleMachine::preset("h100")) {
  return ScaleModel(job, machine).predict(ScaleLayout::parse(layout, ranks));
}

TEST(Scale, Layouts) {
  const ScaleLayout layout = ScaleLayout::parse("tp=8,pp=12,zero1,interleaved=8", 4608);
  EXPECT_EQ(layout.data, 48);
  EXPECT_EQ(layout.ranks(), 4608);
  EXPECT_EQ(layout.text(), "tp=8,pp=12,dp=48,zero1,interleaved=8");
  EXPECT_EQ(ScaleLayout::parse(layout.text(), 4608).text(), layout.text());
  EXPECT_EQ(ScaleLayout::parse("dp", 16).data, 16);
  for (const char* wrong : {"", "zero4", "tp", "tp=0", "tp=3", "tp=2x", "dp=3", "interleaved=2"})
    EXPECT_THROW(ScaleLayout::parse(wrong, 16), ValueError) << wrong;
}

TEST(Scale, CollectivesFollowTheirBytes) {
  ScaleMachine m = ScaleMachine::preset("h100");
  const double bytes = 1e9;
  // Within a node: 2 (n - 1) / n of the bytes pass every link in an all_reduce.
  const double one = collective_seconds(m, CollectiveKind::all_reduce, bytes, {8, 8});
  EXPECT_NEAR(one, 2 * bytes * 7 / 8 / m.node.bandwidth, 0.02 * one);
  EXPECT_NEAR(collective_seconds(m, CollectiveKind::all_gather, bytes, {8, 8}), one / 2,
              0.02 * one);
  // One rank per node: the network's link.
  EXPECT_NEAR(collective_seconds(m, CollectiveKind::all_gather, bytes, {16, 1}),
              bytes * 15 / 16 / m.network.bandwidth, 0.02);
  EXPECT_EQ(collective_seconds(m, CollectiveKind::all_reduce, bytes, {1, 1}), 0);
  // Small messages cost latency, which grows with the ranks.
  EXPECT_LT(collective_seconds(m, CollectiveKind::all_reduce, 8, {8, 8}),
            collective_seconds(m, CollectiveKind::all_reduce, 8, {1024, 8}));
}

TEST(Scale, MachinesSurviveAFile) {
  const ScaleMachine machine = ScaleMachine::preset("a100");
  const std::string text = machine.to_json();
  EXPECT_EQ(ScaleMachine::from_json(text).to_json(), text);
  EXPECT_THROW(ScaleMachine::preset("abacus"), ValueError);
  for (const char* wrong : {"", "[]", "{}", "{\"name\": \"x\"}"})
    EXPECT_THROW(ScaleMachine::from_json(wrong), Error) << wrong;
  std::string negative = text;
  negative.replace(negative.find("\"jitter\": ") + 10, 1, "-1");
  EXPECT_THROW(ScaleMachine::from_json(negative), Error);
}

TEST(Scale, RanksMeasureTheirHostTogether) {
  std::array<double, 2> shares{};
  distributed::run_ranks(2, [&](ProcessGroup& world) {
    const ScaleMachine machine = distributed::measure_machine(world);
    shares[static_cast<size_t>(world.rank())] = machine.contention;
    EXPECT_GT(machine.node.bandwidth, 0);
    ScaleMachine::from_json(machine.to_json());  // which checks its entries
  });
  EXPECT_EQ(shares[0], shares[1]);  // measured, not assumed
  EXPECT_NE(shares[0], 0.1);
  EXPECT_TRUE(shares[0] >= 0 && shares[0] <= 0.95);
}

TEST(Scale, FlopsAndMemoryAreThoseOfTheModel) {
  ScaleJob job{
      .model = distributed::scale_model("llama-3.2-1b"), .context = 1024, .micro_batch = 4};
  const ScalePrediction p = predict(job, "dp", 8);
  // 6 FLOP for each parameter and token, and 6 T D for each layer and token of causal attention.
  const double tokens = 4 * 1024.0, parameters = 1.2358e9;
  const double flops = tokens * (6 * parameters + 6 * 16.0 * 1024 * 2048);
  const double peak = ScaleMachine::preset("h100").peak_flops;
  EXPECT_NEAR(p.mfu * p.seconds * peak, flops, 0.01 * flops);
  EXPECT_NEAR(p.parameters, 2 * parameters, 0.01 * p.parameters);
  EXPECT_NEAR(p.optimizer, 12 * parameters, 0.01 * p.optimizer);
  EXPECT_GT(p.activations, 4 * parameters);  // gradients
  const ScalePrediction sharded = predict(job, "zero3", 8);
  EXPECT_NEAR(sharded.parameters, p.parameters / 8, 1);
  EXPECT_NEAR(sharded.optimizer, p.optimizer / 8, 1);
  EXPECT_LT(sharded.activations, p.activations);
  job.recompute = true;
  const ScalePrediction again = predict(job, "zero3", 8);
  EXPECT_LT(again.activations, sharded.activations);
  EXPECT_GT(again.seconds, sharded.seconds);
  EXPECT_NEAR(again.mfu * again.seconds, p.mfu * p.seconds, 1e-3 * p.mfu * p.seconds);
}

TEST(Scale, TensorAndPipelineParallelDivideTheModel) {
  const ScaleJob job{.model = distributed::scale_model("llama-3.2-1b"),
                     .context = 1024,
                     .micro_batch = 1,
                     .accumulation = 8};
  const ScalePrediction whole = predict(job, "dp", 1);
  const ScalePrediction halves = predict(job, "tp=2", 2);
  const ScalePrediction stages = predict(job, "pp=4", 4);
  EXPECT_NEAR(halves.parameters, whole.parameters / 2, 0.02 * whole.parameters);
  EXPECT_GT(halves.exposed_tensor, 0);
  EXPECT_LT(halves.seconds, whole.seconds);
  EXPECT_GT(stages.bubble, 0);
  EXPECT_LT(predict(job, "pp=4,zero-bubble", 4).seconds, stages.seconds);
  EXPECT_LT(predict(job, "pp=4,interleaved=2", 4).seconds, stages.seconds);
  EXPECT_GT(predict(job, "pp=4,gpipe", 4).memory(), stages.memory());
  EXPECT_THROW(predict(job, "tp=64", 64), ValueError);
  EXPECT_THROW(predict(job, "pp=17", 17), ValueError);
}

// Llama 3 8B with FSDP on H100, local batch 2 of 8,192 tokens: 5,762 tokens/s/GPU on 8 GPUs, 5,605
// on 128 (-2.7 %), as torchtitan publishes it. The smaller size calibrates the model.
TEST(Scale, MeetsPublishedFsdpScaling) {
  ScaleModel model({.model = distributed::scale_model("llama-3-8b"),
                    .context = 8192,
                    .micro_batch = 2,
                    .recompute = true},
                   ScaleMachine::preset("h100"));
  model.calibrate(ScaleLayout::parse("zero3", 8), 8 * 5762.0);
  const ScalePrediction small = model.predict(ScaleLayout::parse("zero3", 8));
  const ScalePrediction large = model.predict(ScaleLayout::parse("zero3", 128));
  EXPECT_NEAR(small.tokens_per_second / 8, 5762, 1);
  const double change = 100 * (large.tokens_per_second / 128 / 5762 - 1);
  EXPECT_NEAR(change, -2.7, 2);
  EXPECT_LE(large.low, 128 * 5605.0);
  EXPECT_GE(large.high, 128 * 5605.0);
  RecordProperty("change_percent", concat(change));
}

// GPT-3 175B on H100, 1,152 sequences of 2,048 tokens in a step: MFU 47 % on 96 GPUs, 42 % on
// 4,608, as Megatron-LM publishes it. It does not publish the layout: this is one that fits.
TEST(Scale, MeetsPublishedStrongScaling) {
  ScaleModel model({.model = distributed::scale_model("gpt3-175b"),
                    .context = 2048,
                    .micro_batch = 1,
                    .global_batch = 1152,
                    .overlap_gather = true},
                   ScaleMachine::preset("h100"));
  const std::string layout = "tp=8,pp=12,zero1,interleaved=8";
  const ScaleLayout small = ScaleLayout::parse(layout, 96);
  const ScalePrediction first = model.predict(small);
  model.calibrate(small, first.tokens_per_second * 0.47 / first.mfu);
  EXPECT_NEAR(model.predict(small).mfu, 0.47, 0.001);
  const ScalePrediction large = model.predict(ScaleLayout::parse(layout, 4608));
  EXPECT_NEAR(100 * large.mfu, 42, 2);
  RecordProperty("mfu_percent", concat(100 * large.mfu));
}

TEST(Scale, FailuresCostWhatTheyCostLlama3) {
  ScaleMachine machine = ScaleMachine::preset("h100");
  const ScaleJob job{.model = distributed::scale_model("tiny"), .context = 128};
  // One failure in 12.4 hours of 4,096 GPUs: a checkpoint of 20 s every 22 min, 3.4 % lost.
  const ScalePrediction p = predict(job, "dp", 4096, machine);
  EXPECT_NEAR(p.checkpoint_interval / 60, 22.2, 0.2);
  EXPECT_NEAR(100 * (1 - p.goodput), 3.4, 0.1);
  machine.failures_per_rank_hour = 0;
  EXPECT_EQ(predict(job, "dp", 4096, machine).goodput, 1);
}

TEST(Scale, SearchPutsTheFastestThatFitsFirst) {
  ScaleModel model({.model = distributed::scale_model("llama-3-8b"),
                    .context = 4096,
                    .micro_batch = 1,
                    .accumulation = 8},
                   ScaleMachine::preset("h100"));
  const std::vector<ScalePrediction> found = model.search(16);
  ASSERT_GT(found.size(), 6U);
  EXPECT_TRUE(found.front().fits);
  for (size_t i = 1; i < found.size(); ++i) {
    EXPECT_GE(found[i - 1].fits, found[i].fits);
    if (found[i - 1].fits != found[i].fits) continue;
    EXPECT_GE(found[i - 1].tokens_per_second, found[i].tokens_per_second);
  }
  for (const ScalePrediction& p : found) {
    EXPECT_LE(p.low, p.tokens_per_second);
    EXPECT_GE(p.high, p.tokens_per_second);
  }
}

}  // namespace
}  // namespace tensora::testing
