// Checkpoints of N ranks that M ranks load.
#include "tensora/distributed/sharded_checkpoints.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tensora/distributed/threads.h"
#include "tensora/optim/adamw.h"
#include "tests/distributed/training_models.h"
#include "tests/temporary_folder.h"

namespace tensora::testing {
namespace {

using distributed::DataParallel;
using distributed::run_ranks;
using distributed::ShardedCheckpoints;

struct Rank {
  explicit Rank(int stage, const char* kind = "llama", uint64_t seed = 7)
      : model(make_model(kind)),
        optimizer(model.module->parameters(), {.lr = 1e-2}),
        parallel(*model.module, {.zero_stage = stage}) {
    manual_seed(seed);
    parallel.shard(optimizer);
  }
  void train(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      model.loss(10 * i + parallel.group().rank()).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  TrainedModel model;
  optim::AdamW optimizer;
  DataParallel parallel;
};

/// The parameters and the optimizer's states as one process loads them.
std::vector<std::vector<float>> contents(const std::string& folder) {
  Rank rank(0);
  const auto loaded =
      ShardedCheckpoints(folder).load_latest(*rank.model.module, rank.parallel, rank.optimizer);
  EXPECT_TRUE(loaded.has_value());
  std::vector<std::vector<float>> all = bits_of(*rank.model.module);
  for (const Tensor& param : rank.optimizer.parameters()) {
    Value& state = rank.optimizer.state(param);
    for (const char* key : {"step", "exp_avg", "exp_avg_sq"})
      all.push_back(to_vector<float>(state.at(key).to_tensor()));
  }
  return all;
}

TEST(ShardedCheckpoints, SavedByFourRanksAndLoadedByFewer) {
  for (const int stage : {0, 1, 2, 3}) {
    const TemporaryFolder folder;
    const std::string saved = folder / "four";
    std::vector<std::vector<float>> trained;
    run_ranks(4, [&](ProcessGroup& world) {
      Rank rank(stage);
      rank.train(5);
      ShardedCheckpoints(saved).save(5, *rank.model.module, rank.parallel, rank.optimizer,
                                     Value(Value::Dict{{"position", 40}}));
      const auto whole = rank.parallel.whole_parameters();
      if (world.rank() == 0) trained = bits_of(*rank.model.module);
    });
    const std::vector<std::vector<float>> expected = contents(saved);
    ASSERT_GT(expected.size(), trained.size());
    EXPECT_EQ(
        std::vector(expected.begin(), expected.begin() + static_cast<int64_t>(trained.size())),
        trained)
        << "stage " << stage;
    for (const int ranks : {1, 2, 3})
      for (const int other : {0, 1, 3}) {
        const std::string again = folder / concat("again-", ranks, "-", other);
        run_ranks(ranks, [&](ProcessGroup&) {
          Rank rank(other);
          if (ranks > 1) rank.train(1);  // what is there before does not matter
          const auto loaded = ShardedCheckpoints(saved).load_latest(*rank.model.module,
                                                                    rank.parallel, rank.optimizer);
          ASSERT_TRUE(loaded.has_value());
          EXPECT_EQ(loaded->step, 5);
          EXPECT_EQ(loaded->extra.at("position").to_int(), 40);
          ShardedCheckpoints(again).save(6, *rank.model.module, rank.parallel, rank.optimizer);
        });
        EXPECT_EQ(contents(again), expected)
            << "stage " << stage << " → " << ranks << " ranks of stage " << other;
      }
  }
}

TEST(ShardedCheckpoints, GoOnAsIfNothingHadHappened) {
  for (const int stage : {0, 2, 3}) {
    const TemporaryFolder folder;
    std::vector<std::vector<float>> straight, resumed;
    run_ranks(2, [&](ProcessGroup& world) {
      Rank rank(stage, "mlp");
      rank.train(3);
      ShardedCheckpoints(folder / "run").save(3, *rank.model.module, rank.parallel, rank.optimizer);
      rank.train(3);
      const auto whole = rank.parallel.whole_parameters();
      if (world.rank() == 0) straight = bits_of(*rank.model.module);
    });
    run_ranks(2, [&](ProcessGroup& world) {
      Rank rank(stage, "mlp", 99);
      ShardedCheckpoints(folder / "run")
          .load_latest(*rank.model.module, rank.parallel, rank.optimizer);
      rank.train(3);
      const auto whole = rank.parallel.whole_parameters();
      if (world.rank() == 0) resumed = bits_of(*rank.model.module);
    });
    EXPECT_EQ(resumed, straight) << "stage " << stage;
  }
}

// Their shards have another shape than they themselves, or no elements.
TEST(ShardedCheckpoints, OfParametersWithoutDimsAndWithoutElements) {
  for (const int saving : {0, 1, 3})
    for (const int loading : {0, 2, 3}) {
      const TemporaryFolder folder;
      std::vector<std::vector<float>> straight, resumed;
      const auto train = [&](int stage, bool load, std::vector<std::vector<float>>& bits) {
        run_ranks(2, [&](ProcessGroup& world) {
          nn::Module model;
          const Tensor scale = model.register_parameter("scale", full({}, 2.0));
          const Tensor none = model.register_parameter("none", ones({0, 3}));
          const Tensor w = model.register_parameter("w", ones({200}));
          optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
          DataParallel parallel(model, {.zero_stage = stage});
          parallel.shard(optimizer);
          ShardedCheckpoints checkpoints(folder / "run");
          const auto step = [&] {
            // Without a forward that gathers them.
            const auto whole = parallel.whole_parameters();
            ((w * scale).square().sum() * (world.rank() + 1.0) + none.sum()).backward();
            optimizer.step();
            optimizer.zero_grad();
          };
          if (load) {
            EXPECT_TRUE(checkpoints.load_latest(model, parallel, optimizer).has_value());
          } else {
            step();
            checkpoints.save(1, model, parallel, optimizer);
          }
          step();
          const auto whole = parallel.whole_parameters();
          if (world.rank() == 0) bits = bits_of(model);
        });
      };
      train(saving, false, straight);
      train(loading, true, resumed);
      EXPECT_EQ(resumed, straight) << "stage " << saving << " → " << loading;
    }
}

TEST(ShardedCheckpoints, InTheBackgroundTheyHaveTheStateOfTheCall) {
  const TemporaryFolder folder;
  for (const bool background : {false, true})
    run_ranks(3, [&](ProcessGroup&) {
      Rank rank(2);
      ShardedCheckpoints checkpoints(folder / (background ? "background" : "blocking"));
      for (const int64_t step : {1, 2}) {
        rank.train(1);
        if (background)
          checkpoints.save_in_background(step, *rank.model.module, rank.parallel, rank.optimizer);
        else
          checkpoints.save(step, *rank.model.module, rank.parallel, rank.optimizer);
      }
      rank.train(2);  // while the thread writes
      checkpoints.wait();
    });
  EXPECT_EQ(ShardedCheckpoints(folder / "background").steps(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(contents(folder / "background"), contents(folder / "blocking"));
  // A folder that cannot be made is an error of the next call, on every rank; also where the one
  // that fails has left before others have their group.
  std::ofstream(folder / "file") << "x";
  std::atomic<int> errors = 0;
  for (int round = 0; round < 20; ++round)
    run_ranks(2, [&](ProcessGroup&) {
      Rank rank(1, "mlp");
      ShardedCheckpoints checkpoints(folder / "file");
      checkpoints.save_in_background(1, *rank.model.module, rank.parallel, rank.optimizer);
      errors += contains(error_of([&] { checkpoints.wait(); }), "cannot be created");
    });
  EXPECT_EQ(errors, 2 * 20);
}

TEST(ShardedCheckpoints, OneWithoutItsIndexDoesNotCount) {
  const TemporaryFolder folder;
  run_ranks(2, [&](ProcessGroup& world) {
    Rank rank(1, "mlp");
    const ShardedCheckpoints empty_folder(folder / "nothing");
    EXPECT_FALSE(
        empty_folder.load_latest(*rank.model.module, rank.parallel, rank.optimizer).has_value());
    ShardedCheckpoints checkpoints(folder / "run", 2);
    for (const int64_t step : {1, 2, 3}) {
      rank.train(1);
      checkpoints.save(step, *rank.model.module, rank.parallel, rank.optimizer);
    }
    world.barrier();
    EXPECT_EQ(checkpoints.steps(), (std::vector<int64_t>{2, 3}));
    world.barrier();
    // A run that is killed leaves files, but no index.
    if (world.rank() == 0) std::filesystem::remove(checkpoints.path_of(3) + "/index.json");
    world.barrier();
    const auto loaded = checkpoints.load_latest(*rank.model.module, rank.parallel, rank.optimizer);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->step, 2);
  });
}

// Every way to damage the only checkpoint is an error that names the file, and changes nothing.
TEST(ShardedCheckpoints, DamageIsFoundBeforeAnythingChanges) {
  const TemporaryFolder folder;
  const auto load = [&](bool write) {
    run_ranks(2, [&](ProcessGroup& world) {
      Rank rank(1, "mlp", write ? 7 : 99);
      rank.train(1);
      ShardedCheckpoints checkpoints(folder / "run");
      if (write) return checkpoints.save(1, *rank.model.module, rank.parallel, rank.optimizer);
      const auto unchanged = bits_of(*rank.model.module);
      const std::string text = error_of(
          [&] { checkpoints.load_latest(*rank.model.module, rank.parallel, rank.optimizer); });
      EXPECT_TRUE(contains(text, "none of the 1 checkpoints")) << text;
      EXPECT_EQ(bits_of(*rank.model.module), unchanged);
      world.barrier();
    });
  };
  load(true);
  const std::string path = ShardedCheckpoints(folder / "run").path_of(1);
  for (const std::string name :
       {"index.json", "rank-0-of-2.safetensors", "rank-1-of-2.safetensors", "state.pt"}) {
    const std::string file = concat(path, "/", name);
    std::ostringstream read;
    read << std::ifstream(file, std::ios::binary).rdbuf();
    const std::string good = read.str();
    ASSERT_GT(good.size(), 100U) << file;
    std::vector<std::string> bad{good.substr(0, good.size() / 2), good.substr(0, good.size() - 1),
                                 ""};
    // A flipped bit: in the header, and in the numbers.
    for (const size_t at : {good.size() / 3, good.size() * 2 / 3, good.size() - 40}) {
      bad.push_back(good);
      bad.back()[at] = static_cast<char>(bad.back()[at] ^ 4);
    }
    for (size_t i = 0; i < bad.size(); ++i) {
      SCOPED_TRACE(concat(name, ", damage ", i));
      std::ofstream(file, std::ios::binary | std::ios::trunc) << bad[i];
      load(false);
    }
    if (name != "index.json") {  // without which it would not count
      std::filesystem::remove(file);
      load(false);
    }
    std::ofstream(file, std::ios::binary | std::ios::trunc) << good;
  }
}

TEST(ShardedCheckpoints, AnOlderOneReplacesADamagedOne) {
  const TemporaryFolder folder;
  run_ranks(2, [&](ProcessGroup& world) {
    Rank rank(1, "mlp");
    ShardedCheckpoints checkpoints(folder / "run");
    for (const int64_t step : {1, 2})
      checkpoints.save(step, *rank.model.module, rank.parallel, rank.optimizer);
    world.barrier();
    if (world.rank() == 0)
      std::filesystem::remove(checkpoints.path_of(2) + "/rank-1-of-2.safetensors");
    world.barrier();
    const auto loaded = checkpoints.load_latest(*rank.model.module, rank.parallel, rank.optimizer);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->step, 1);
    ASSERT_EQ(loaded->skipped.size(), 1U);
    EXPECT_TRUE(contains(loaded->skipped[0], "rank-1-of-2.safetensors")) << loaded->skipped[0];
    // Another model is not damage.
    Rank other(1, "cnn");
    EXPECT_TRUE(contains(error_of([&] {
                           checkpoints.load_latest(*other.model.module, other.parallel,
                                                   other.optimizer);
                         }),
                         "there is no '"));
  });
}

}  // namespace
}  // namespace tensora::testing
