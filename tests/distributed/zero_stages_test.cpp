// The bits of ZeRO stages for parameters of all sizes.
#include <gtest/gtest.h>

#include <cmath>

#include "tensora/amp/grad_scaler.h"
#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/threads.h"
#include "tensora/optim/adamw.h"
#include "tests/distributed/training_models.h"

namespace tensora::testing {
namespace {

using distributed::run_ranks;

// Parameters with blocks and buckets of their own, in which no element is moved, beside small ones;
// for three ranks the parts of some are not equally long.
TEST(ZeroStages, LargeParametersGiveTheBitsOfStageZero) {
  const auto train = [](int ranks, int stage, bool accumulates) {
    std::vector<std::vector<float>> result;
    run_ranks(ranks, [&](ProcessGroup& world) {
      manual_seed(4);
      nn::Sequential model(nn::Linear(256, 384), nn::ReLU(), nn::Linear(384, 256), nn::ReLU(),
                           nn::Linear(256, 8));
      distributed::DataParallel parallel(model, {.zero_stage = stage});
      optim::AdamW optimizer(model->parameters(), {.lr = 1e-2});
      parallel.shard(optimizer);
      for (int step = 0; step < 4; ++step) {
        manual_seed(static_cast<uint64_t>(100 * step + world.rank()));
        const Tensor x = randn({4, 256});
        if (accumulates && step == 2) {
          const auto silent = parallel.no_sync();
          model(x).square().mean().backward();
        }
        model(x * 2).square().mean().backward();
        optimizer.step();
        optimizer.zero_grad();
        model->zero_grad();
      }
      const auto whole = parallel.whole_parameters();
      if (world.rank() != 0) return;
      for (const Tensor& param : model->parameters())
        result.push_back(to_vector<float>(param.detach().clone()));
    });
    return result;
  };
  for (const int ranks : {2, 3}) {
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(concat(ranks, " ranks, stage ", stage));
      // Sums of micro-batches are rounded otherwise at stage 3.
      const bool accumulates = stage < 3;
      EXPECT_TRUE(train(ranks, stage, accumulates) == train(ranks, 0, accumulates));
    }
  }
}

// A model of so few elements that a part of 64 would leave ranks without any.
TEST(ZeroStages, SmallModelsScaleTheirLosses) {
  const auto train = [](int ranks, int stage) {
    std::vector<double> result;
    run_ranks(ranks, [&](ProcessGroup& world) {
      nn::Module model;
      const Tensor w = model.register_parameter("w", arange(5).to(kFloat32));
      distributed::DataParallel parallel(model, {.zero_stage = stage});
      optim::AdamW optimizer({w}, {.lr = 0.1});
      parallel.shard(optimizer);
      amp::GradScaler scaler({.init_scale = 4, .growth_interval = 2});
      std::vector<double> losses;
      for (int step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        const Tensor factor = ones({5});
        if (step == 3 && world.rank() == ranks - 1) factor[0] = HUGE_VAL;
        const Tensor loss = (w * factor).square().sum();
        scaler.scale(loss).backward();
        parallel.share_overflow();
        scaler.step(optimizer);
        scaler.update();
        const auto whole = parallel.whole_parameters();
        losses.push_back(w.detach().square().sum().item<double>());
        losses.push_back(scaler.get_scale());
      }
      if (world.rank() == 0) result = losses;
    });
    return result;
  };
  const std::vector<double> expected = train(1, 0);
  EXPECT_EQ(expected[4], expected[6]);  // the step with the infinite gradient was left out
  for (const int ranks : {2, 3, 5})
    for (const int stage : {1, 2}) {
      SCOPED_TRACE(concat(ranks, " ranks, stage ", stage));
      EXPECT_EQ(train(ranks, stage), expected);
    }
  run_ranks(3, [&](ProcessGroup&) {
    nn::Module model;
    const Tensor w = model.register_parameter("w", ones({2}));
    distributed::DataParallel parallel(model, {.zero_stage = 1});
    w.sum().backward();
    EXPECT_TRUE(contains(error_of([&] { parallel.share_overflow(); }), "has no element of it"));
  });
}

}  // namespace
}  // namespace tensora::testing
