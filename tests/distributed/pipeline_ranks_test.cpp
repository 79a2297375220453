#include "tensora/distributed/pipeline_ranks.h"

#include <gtest/gtest.h>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/thread_state.h"
#include "tensora/distributed/threads.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"
#include "tests/helpers.h"
#include "tests/temporary_folder.h"

namespace tensora::distributed {
namespace {

using train::MicroBatch;

models::LLaMAConfig small(bool tied) {
  return {.vocab_size = 17,
          .hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 5,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .max_position_embeddings = 16,
          .tie_word_embeddings = tied};
}

std::vector<MicroBatch> batches_of(int step) {
  std::vector<MicroBatch> result;
  for (int part = 0; part < 4; ++part) {
    manual_seed(static_cast<uint64_t>(100 * step + part));
    const Tensor text = randint(0, 17, {2, 7}, {.dtype = kInt64});
    result.push_back({text.narrow(1, 0, 6), text.narrow(1, 1, 6)});
  }
  return result;
}

models::LLaMA made(bool tied) {
  manual_seed(1);
  return models::LLaMA(small(tied));
}

TensorList copies(const models::LLaMA& model) {
  TensorList result;
  for (const Tensor& parameter : model.parameters()) result.push_back(parameter.detach().clone());
  return result;
}

/// What one process has after some steps.
TensorList in_one_process(bool tied, int steps, double clip) {
  models::LLaMA model = made(tied);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  for (int step = 0; step < steps; ++step) {
    for (const MicroBatch& batch : batches_of(step))
      (model(batch.inputs, batch.targets) / 4.0).backward();
    if (clip > 0) clip_grad_norm_(model.parameters(), clip);
    optimizer.step();
    optimizer.zero_grad();
  }
  return copies(model);
}

void take_steps(PipelineRanks& ranks, optim::Optimizer& optimizer, int first, int end,
                double clip) {
  for (int step = first; step < end; ++step) {
    const Tensor loss = ranks.pass(batches_of(step));
    EXPECT_GT(loss.item<double>(), 1);
    if (clip > 0) ranks.clip_grad_norm_(clip);
    optimizer.step();
    optimizer.zero_grad();
  }
}

void expect_model(PipelineRanks& ranks, const models::LLaMA& model, const TensorList& expected,
                  double tolerance) {
  ranks.with_whole_parameters([&] {
    const TensorList got = copies(model);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(tolerance == 0 ? equal(got[i], expected[i])
                                 : allclose(got[i], expected[i], tolerance, tolerance))
          << i;
  });
}

TEST(PipelineRanks, TrainsTheModelOfOneProcess) {
  const DeterministicScope deterministic(true);
  struct Setting {
    bool tied;
    double clip, tolerance;
  };
  for (const Setting& setting : {Setting{false, 0, 0}, {true, 0, 1e-4}, {false, 0.1, 1e-4}}) {
    const TensorList expected = in_one_process(setting.tied, 6, setting.clip);
    for (const auto& [count, schedule] :
         {std::pair(1, "1f1b"), {2, "1f1b"}, {3, "gpipe"}, {2, "zero-bubble"}})
      run_ranks(count, [&, schedule = schedule](ProcessGroup&) {
        models::LLaMA model = made(setting.tied);
        optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
        PipelineRanks ranks(schedule);
        ranks.attach(model, optimizer);
        take_steps(ranks, optimizer, 0, 6, setting.clip);
        expect_model(ranks, model, expected, setting.tolerance);
      });
  }
}

TEST(PipelineRanks, AnyNumberOfRanksGoesOnFromACheckpoint) {
  const DeterministicScope deterministic(true);
  const testing::TemporaryFolder folder;
  const TensorList expected = in_one_process(false, 6, 0);
  const auto run = [&](int count, int first, int end) {
    run_ranks(count, [&](ProcessGroup&) {
      models::LLaMA model = made(false);
      optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
      PipelineRanks ranks;
      ranks.attach(model, optimizer);
      const auto found = ranks.restore(folder.path("checkpoints"));
      EXPECT_EQ(found ? found->first : 0, first);
      take_steps(ranks, optimizer, first, end, 0);
      ranks.save(folder.path("checkpoints"), end, 3, Value("more"));
      if (end == 6) expect_model(ranks, model, expected, 0);
    });
  };
  run(2, 0, 2);
  run(3, 2, 4);
  run(1, 4, 6);
}

TEST(PipelineRanks, RefusesWhatItCannotDivide) {
  const auto complaint = [](const models::LLaMAConfig& config) {
    return testing::error_of([&] {
      run_ranks(3, [&](ProcessGroup&) {
        models::LLaMA model(config);
        optim::AdamW optimizer(model.parameters());
        PipelineRanks().attach(model, optimizer);
      });
    });
  };
  models::LLaMAConfig config = small(true);
  config.num_hidden_layers = 2;
  EXPECT_TRUE(testing::contains(complaint(config), "2 layers cannot be divided among 3 ranks"));
  config = small(true);
  config.attention_dropout = 0.1;
  EXPECT_TRUE(testing::contains(complaint(config), "attention_dropout must be 0, got 0.1"));
  EXPECT_TRUE(testing::contains(
      testing::error_of([] { PipelineRanks("backwards").pass(batches_of(0)); }), "backwards"));
}

}  // namespace
}  // namespace tensora::distributed
