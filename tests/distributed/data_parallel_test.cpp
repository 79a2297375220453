// Training on several ranks equals training in one process.
#include "tensora/distributed/data_parallel.h"

#include <cmath>

#include "tensora/distributed/threads.h"
#include "tensora/nn/embedding.h"
#include "tensora/optim/adamw.h"
#include "tensora/optim/muon.h"
#include "tensora/optim/sgd.h"
#include "tests/distributed/training_models.h"

namespace tensora::testing {
namespace {

using distributed::DataParallelOptions;
using distributed::GradientReduction;
using distributed::run_ranks;

struct Outcome {
  std::vector<std::vector<float>> params;
  std::vector<float> losses, norms;
};

constexpr double kClip = 0.8;

// Adds up the gradients of `ranks` micro-batches, one after the other.
Outcome train_alone(const std::string& kind, int ranks, int steps) {
  const DeterministicScope mode(true);
  const TrainedModel model = make_model(kind);
  optim::AdamW optimizer(model.module->parameters(), {.lr = 1e-2});
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Tensor loss = model.loss(step * ranks + rank);
      outcome.losses.push_back(loss.item<float>());
      loss.backward();
    }
    for (const Tensor& param : model.module->parameters()) param.grad().mul_(1.0 / ranks);
    outcome.norms.push_back(clip_grad_norm_(model.module->parameters(), kClip).item<float>());
    optimizer.step();
    optimizer.zero_grad();
  }
  outcome.params = bits_of(*model.module);
  return outcome;
}

std::vector<Outcome> train_on_ranks(const std::string& kind, int ranks, int steps,
                                    DataParallelOptions options) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](ProcessGroup& world) {
    const DeterministicScope mode(true);
    Outcome& outcome = outcomes[static_cast<size_t>(world.rank())];
    const TrainedModel model = make_model(kind);
    optim::AdamW optimizer(model.module->parameters(), {.lr = 1e-2});
    distributed::DataParallel parallel(*model.module, options);
    parallel.shard(optimizer);
    for (int step = 0; step < steps; ++step) {
      const Tensor loss = model.loss(step * ranks + world.rank());
      outcome.losses.push_back(loss.item<float>());
      loss.backward();
      outcome.norms.push_back(parallel.clip_grad_norm_(kClip).item<float>());
      optimizer.step();
      optimizer.zero_grad();
    }
    const auto whole = parallel.whole_parameters();
    outcome.params = bits_of(*model.module);
  });
  return outcomes;
}

void expect_same_training(const std::string& kind, int ranks, int steps,
                          const DataParallelOptions& options) {
  SCOPED_TRACE(concat(kind, ", ", ranks, " ranks, stage ", options.zero_stage, ", buckets of ",
                      options.bucket_bytes));
  const Outcome alone = train_alone(kind, ranks, steps);
  const std::vector<Outcome> outcomes = train_on_ranks(kind, ranks, steps, options);
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].params, alone.params) << "rank " << rank;
    EXPECT_EQ(outcomes[rank].norms, alone.norms) << "rank " << rank;
    for (size_t step = 0; step < static_cast<size_t>(steps); ++step)
      ASSERT_EQ(outcomes[rank].losses[step], alone.losses[step * outcomes.size() + rank])
          << "rank " << rank << ", step " << step;
  }
}

TEST(DataParallel, GivesTheBitsOfOneProcess) {
  for (const char* kind : {"mlp", "cnn", "llama"})
    for (const int ranks : {2, 3, 4}) expect_same_training(kind, ranks, 100, {});
}

TEST(DataParallel, GivesTheSameBitsWithAnyBucketSize) {
  for (const int64_t bytes : {1, 700, 5000, 1 << 24})
    expect_same_training("llama", 3, 12, {.first_bucket_bytes = bytes / 2, .bucket_bytes = bytes});
}

TEST(ZeroStages, GiveTheBitsOfOneProcess) {
  for (const int stage : {1, 2, 3})
    for (const char* kind : {"mlp", "cnn", "llama"})
      for (const int ranks : {2, 3, 4})
        expect_same_training(kind, ranks, 100, {.zero_stage = stage});
}

TEST(DataParallel, AWorldOfOneChangesNothing) {
  for (const int stage : {0, 3}) expect_same_training("mlp", 1, 5, {.zero_stage = stage});
}

// A mean of means would weigh the tokens of a short batch more.
TEST(DataParallel, SumsLossesDividedByTheCountOfAllRanks) {
  const auto rows_of = [](int rank) { return int64_t{2} + 3 * rank; };
  const auto data = [](int64_t rows) { return full({rows, 4}, 0.5) + arange(rows).unsqueeze(1); };
  const Tensor alone = ones({4}).requires_grad_();
  for (int rank = 0; rank < 3; ++rank) ((data(rows_of(rank)) * alone).sum() / 15.0).backward();
  run_ranks(3, [&](ProcessGroup& world) {
    nn::Module model;
    const Tensor w = model.register_parameter("w", ones({4}));
    const auto parallel = distributed::data_parallel(model, {.reduction = GradientReduction::sum});
    const int64_t rows = rows_of(world.rank());
    const double count = distributed::sum_over_ranks(static_cast<double>(rows), world);
    EXPECT_EQ(count, 15);
    ((data(rows) * w).sum() / count).backward();
    EXPECT_EQ(values(w.grad()), values(alone.grad()));
  });
}

// Parameters 0, 1, 2, of which a rank uses some.
struct Branches : nn::Layer<Branches> {
  Tensor a = register_parameter("a", ones({3}));
  Tensor b = register_parameter("b", ones({2000}));
  Tensor c = register_parameter("c", ones({3}));
  Tensor forward(const std::vector<int>& used) const {
    Tensor sum = zeros({});
    for (const int which : used) sum = sum + (which == 0 ? a : which == 1 ? b : c).sum();
    return sum;
  }
};

TEST(DataParallel, UnusedParametersNeedNoFlag) {
  for (const int stage : {0, 1, 2})
    run_ranks(2, [&](ProcessGroup& world) {
      Branches model;
      distributed::DataParallel parallel(model, {.zero_stage = stage, .bucket_bytes = 100});
      const auto grad_of = [&](size_t i) {
        const auto shard = parallel.shards()[i];
        const Tensor grad = stage == 0 ? shard.parameter.grad() : shard.shard.grad();
        return grad.defined() && grad.numel() > 0 ? values(grad)[0] : -1.0;
      };
      const bool has_small = stage == 0 || parallel.shards()[0].end > 0;
      for (int step = 0; step < 3; ++step) {
        // Only rank 0 uses `a`, nobody uses `c`.
        model(world.rank() == 0 ? std::vector{0, 1} : std::vector{1}).backward();
        EXPECT_EQ(grad_of(0), has_small ? 0.5 : -1.0) << "stage " << stage;
        EXPECT_EQ(grad_of(1), 1.0) << "stage " << stage;
        EXPECT_EQ(grad_of(2), -1.0) << "stage " << stage;
        for (const auto& shard : parallel.shards()) {
          shard.parameter.set_grad({});
          if (stage > 0) shard.shard.set_grad({});
        }
      }
    });
}

TEST(DataParallel, StrictNamesParametersThatSomeRanksUsed) {
  EXPECT_TRUE(contains(error_of([] {
                         run_ranks(2, [](ProcessGroup& world) {
                           Branches model;
                           distributed::DataParallel parallel(model, {.strict = true});
                           model(world.rank() == 0 ? std::vector{0, 1} : std::vector{1}).backward();
                         });
                       }),
                       "others did not: a"));
}

TEST(DataParallel, RanksMustTrainTheSameModel) {
  const std::string text = error_of([] {
    run_ranks(3, [](ProcessGroup& world) {
      nn::Module model;
      model.register_parameter("first", ones({3}));
      model.register_parameter("second", ones({world.rank() == 2 ? 4 : 5}));
      distributed::DataParallel parallel(model);
    });
  });
  EXPECT_TRUE(contains(text, "parameter 1 of rank 2 differs")) << text;
}

TEST(DataParallel, StartsFromTheFirstRanksParametersAndBuffers) {
  run_ranks(2, [](ProcessGroup& world) {
    nn::Module model;
    const Tensor w = model.register_parameter("w", full({3}, world.rank() + 1.0));
    const Tensor b = model.register_buffer("b", full({2}, world.rank() + 5.0));
    distributed::DataParallel parallel(model);
    EXPECT_EQ(values(w), (Values{1, 1, 1}));
    EXPECT_EQ(values(b), (Values{5, 5}));
  });
}

TEST(DataParallel, NoSyncAccumulates) {
  for (const int stage : {0, 1, 2})
    run_ranks(2, [&](ProcessGroup& world) {
      nn::Module model;
      const Tensor w = model.register_parameter("w", ones({300}));
      distributed::DataParallel parallel(model, {.zero_stage = stage});
      const double own = world.rank() + 1.0;
      {
        const auto scope = parallel.no_sync();
        (w * own).sum().backward();
        EXPECT_EQ(values(w.grad())[0], own);
      }
      (w * 10 * own).sum().backward();
      const Tensor grad = stage == 0 ? w.grad() : parallel.shards()[0].shard.grad();
      for (const double value : values(grad)) EXPECT_EQ(value, (11 + 22) / 2.0);
    });
}

TEST(DataParallel, SeveralBackwardsAddUp) {
  run_ranks(2, [&](ProcessGroup& world) {
    SmallMlp model;
    nn::Module big;
    const Tensor w = big.register_parameter("w", ones({3}));
    distributed::DataParallel parallel(big);
    for (int i = 1; i <= 3; ++i) {
      (w * (world.rank() + 1.0)).sum().backward();
      EXPECT_EQ(values(w.grad())[0], 1.5 * i);
    }
    distributed::DataParallel summing(big, {.reduction = GradientReduction::sum});
  });
  EXPECT_TRUE(contains(error_of([] {
                         run_ranks(2, [](ProcessGroup&) {
                           nn::Module big;
                           const Tensor w = big.register_parameter("w", ones({3}));
                           distributed::DataParallel parallel(
                               big, {.reduction = GradientReduction::sum});
                           w.sum().backward();
                           w.sum().backward();
                         });
                       }),
                       "zero_grad"));
}

// Ranks with fewer batches take part until all are finished; all end with the same parameters,
// those of a process that gave every step the batches that there were.
TEST(DataParallel, SparseGradientsAreExchangedInTheirDenseForm) {
  run_ranks(2, [](ProcessGroup& world) {
    manual_seed(1);
    nn::Embedding table(4, 2, {.sparse = true});
    distributed::DataParallel parallel(table);
    for (int step = 0; step < 2; ++step) {  // the second one uses the buckets of the first
      table.zero_grad();
      table(tensor({static_cast<int64_t>(world.rank()), int64_t{3}})).sum().backward();
      const Tensor expected = tensor({{0.5, 0.5}, {0.5, 0.5}, {0., 0.}, {1., 1.}}, kFloat32);
      EXPECT_TRUE(equal(table.weight.grad(), expected)) << table.weight.grad();
    }
  });
}

TEST(DataParallel, UnevenInputs) {
  for (const int stage : {0, 1, 2}) {
    const auto batches_of = [](int epoch, int rank) { return epoch == rank ? 5 : 2; };
    const TrainedModel alone = make_model("mlp");
    const auto optimizer_for = [](const TrainedModel& model) {
      return std::make_unique<optim::SGD>(model.module->parameters(),
                                          optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    };
    const auto alone_optimizer = optimizer_for(alone);
    for (int step = 0; step < 10; ++step) {
      int count = 0;
      for (int rank = 0; rank < 2; ++rank)
        if (step % 5 < batches_of(step / 5, rank)) {
          alone.loss(10 * rank + step).backward();
          ++count;
        }
      for (const Tensor& param : alone.module->parameters()) param.grad().mul_(1.0 / count);
      alone_optimizer->step();
      alone_optimizer->zero_grad();
    }
    run_ranks(2, [&](ProcessGroup& world) {
      const TrainedModel model = make_model("mlp");
      const auto optimizer = optimizer_for(model);
      distributed::DataParallel parallel(*model.module, {.zero_stage = stage});
      parallel.shard(*optimizer);
      const auto step = [&] {
        optimizer->step();
        optimizer->zero_grad();
      };
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int i = 0; i < batches_of(epoch, world.rank()); ++i) {
          model.loss(10 * world.rank() + 5 * epoch + i).backward();
          step();
        }
        parallel.join(step);
      }
      EXPECT_EQ(bits_of(*model.module), bits_of(*alone.module)) << "stage " << stage;
    });
  }
}

// The sum's gradient is one tensor for both, which must not be reduced for each of them.
TEST(DataParallel, AGradientOfTwoParametersUnderCreateGraph) {
  run_ranks(2, [&](ProcessGroup& world) {
    nn::Module model;
    const Tensor a = model.register_parameter("a", ones({4096}));
    const Tensor b = model.register_parameter("b", ones({4096}));
    distributed::DataParallel parallel(model, {.first_bucket_bytes = 64, .bucket_bytes = 64});
    for (int step = 0; step < 3; ++step) {
      a.set_grad({});
      b.set_grad({});
      ((a + b) * (world.rank() + 1)).sum().backward({}, true, true);
      EXPECT_FALSE(a.grad().shares_storage(b.grad()));
      for (const Tensor& leaf : {a, b})
        EXPECT_TRUE(allclose(leaf.grad(), full({4096}, 1.5), 0, 0)) << "step " << step;
    }
  });
}

TEST(DataParallel, WireDtypeHalvesTheBytes) {
  run_ranks(2, [&](ProcessGroup& world) {
    nn::Module model;
    const Tensor w = model.register_parameter("w", ones({1000}));
    distributed::DataParallel plain(model);
    (w * (world.rank() + 1.0)).sum().backward();
    const int64_t bytes = plain.report().bytes;
    w.set_grad({});
    plain = distributed::DataParallel(model, {.wire_dtype = kBFloat16});
    (w * (world.rank() + 1.0)).sum().backward();
    EXPECT_EQ(values(w.grad())[7], 1.5);
    EXPECT_EQ(plain.report().bytes, bytes / 2);
  });
}

TEST(DataParallel, AnOptimizerThatOutlivesItStepsNoShards) {
  EXPECT_TRUE(contains(error_of([] {
                         run_ranks(2, [](ProcessGroup&) {
                           SmallMlp model;
                           optim::SGD optimizer(model.parameters(), {.lr = 0.1});
                           {
                             distributed::DataParallel parallel(model, {.zero_stage = 1});
                             parallel.shard(optimizer);
                             optimizer.step();
                           }
                           optimizer.step();
                         });
                       }),
                       "the shards of a DataParallel that is gone"));
}

TEST(DataParallel, OptionsThatWouldBeIgnoredAreRefused) {
  SmallMlp model;
  for (const distributed::DataParallelOptions& options :
       {distributed::DataParallelOptions{.zero_stage = 3, .bucket_bytes = 100},
        distributed::DataParallelOptions{.zero_stage = 3, .first_bucket_bytes = 100}})
    EXPECT_TRUE(contains(error_of([&] { distributed::DataParallel(model, options); }),
                         "at zero_stage 3 the buckets are the blocks"));
  EXPECT_TRUE(contains(error_of([&] { distributed::DataParallel(model, {.blocks = {"first"}}); }),
                       "blocks belong to zero_stage 3"));
}

TEST(DataParallel, AFailedBackwardReachesAllRanks) {
  const std::string text = error_of([] {
    run_ranks(2, [](ProcessGroup& world) {
      SmallMlp model;
      distributed::DataParallel parallel(model, {.first_bucket_bytes = 1, .bucket_bytes = 1});
      if (world.rank() == 1)
        model.first.weight.register_hook([](const Tensor&) -> Tensor { fail("a bad hook"); });
      model(randn({2, 13})).sum().backward();
    });
  });
  EXPECT_TRUE(contains(text, "a bad hook") || contains(text, "rank 1")) << text;
}

TEST(FullySharded, ParametersAreAbsentBetweenSteps) {
  run_ranks(2, [&](ProcessGroup&) {
    const TrainedModel model = make_model("llama");
    const int64_t numel = model.module->parameter_count();
    auto parallel = distributed::fully_shard(*model.module);
    int64_t own = 0;
    for (const auto& shard : parallel.shards()) {
      EXPECT_TRUE(shard.parameter.is_meta()) << shard.name;
      own += shard.shard.numel();
    }
    EXPECT_LT(own, numel * 6 / 10);
    model.loss(0).backward();
    for (const auto& shard : parallel.shards()) {
      EXPECT_TRUE(shard.parameter.is_meta()) << shard.name;
      EXPECT_FALSE(shard.parameter.grad().defined()) << shard.name;
    }
    EXPECT_NE(error_of([&] { (void)(model.module->parameters()[0] + ones({1})); }), "");
    const auto whole = parallel.whole_parameters();
    for (const auto& shard : parallel.shards()) EXPECT_TRUE(shard.parameter.is_cpu());
  });
}

TEST(ZeroStages, RefuseOptimizersThatMixElements) {
  EXPECT_TRUE(contains(error_of([] {
                         run_ranks(2, [](ProcessGroup&) {
                           SmallMlp model;
                           distributed::DataParallel parallel(model, {.zero_stage = 1});
                           optim::Muon muon({model.first.weight});
                           parallel.shard(muon);
                         });
                       }),
                       "Muon does not treat every element alike"));
}

TEST(ZeroStages, OverflowIsShared) {
  run_ranks(2, [&](ProcessGroup& world) {
    nn::Module model;
    const Tensor w = model.register_parameter("w", ones({256}));
    distributed::DataParallel parallel(model, {.zero_stage = 2});
    const Tensor factor = ones({256});
    factor[0] = HUGE_VAL;  // in the shard of one rank
    (w * factor).sum().backward();
    parallel.share_overflow();
    bool finite = true;
    for (const double value : values(parallel.shards()[0].shard.grad()))
      finite = finite && std::isfinite(value);
    EXPECT_FALSE(finite) << "rank " << world.rank();
  });
}

}  // namespace
}  // namespace tensora::testing
