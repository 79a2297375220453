#include <unistd.h>

#include <cmath>

#include "files.h"

namespace tensora::testing {
namespace {

using io::CheckpointManager;

Value state_of(int64_t step) {
  Value state = Value::dict();
  state["weight"] = full({100}, static_cast<double>(step));
  state["step"] = step;
  return state;
}

void damage(const std::string& path) {
  std::string contents = read_file(path);
  contents[contents.size() / 2] ^= 1;
  write_file(path, contents);
}

TEST(CheckpointManager, keeps_the_last_ones) {
  const TemporaryFolder folder;
  CheckpointManager manager(folder / "run/checkpoints", {.keep_last = 2});
  EXPECT_FALSE(manager.latest());
  for (int64_t step : {1, 5, 10, 100}) manager.save(step, state_of(step));
  EXPECT_EQ(manager.steps(), (std::vector<int64_t>{10, 100}));
  const auto latest = manager.latest();
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->step, 100);
  EXPECT_EQ(latest->state.at("weight").to_tensor().sum().item<double>(), 10000);
  EXPECT_TRUE(latest->skipped.empty());
  EXPECT_FALSE(latest->metric);
  EXPECT_FALSE(manager.best());
  manager.save(50, state_of(50));  // an earlier step: nothing of a later one is lost
  EXPECT_EQ(manager.steps(), (std::vector<int64_t>{10, 50, 100}));
}

TEST(CheckpointManager, keeps_the_best_one_over_runs) {
  const TemporaryFolder folder;
  {
    CheckpointManager manager(folder.path(), {.keep_last = 1});
    const double losses[] = {3, NAN, 1, 2, 5};
    for (int64_t step = 0; step < 5; ++step) manager.save(step, state_of(step), losses[step]);
  }
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"best.pt", "step-000000000004.pt"}));
  CheckpointManager manager(folder.path(), {.keep_last = 1});
  manager.save(5, state_of(5), 1.5);
  EXPECT_EQ(manager.best()->step, 2);
  EXPECT_EQ(manager.best()->metric, 1);
  manager.save(6, state_of(6), 0.5);
  manager.save(6, state_of(6), 0.25);
  EXPECT_EQ(manager.best()->step, 6);
  damage(folder / "best.pt");
  CheckpointManager again(folder.path(), {.keep_last = 1, .higher_is_better = true});
  again.save(7, state_of(7), 0);
  EXPECT_EQ(again.best()->step, 7);
  again.save(8, state_of(8), -1);
  EXPECT_EQ(again.best()->step, 7);
}

TEST(CheckpointManager, latest_skips_what_is_damaged_or_unfinished) {
  const TemporaryFolder folder;
  CheckpointManager manager(folder.path(), {.keep_last = 0});
  for (int64_t step = 1; step <= 5; ++step) manager.save(step, state_of(step));
  damage(manager.path_of(5));
  write_file(manager.path_of(4), read_file(manager.path_of(4)).substr(0, 500));
  io::save(state_of(3), manager.path_of(3));
  write_file(folder / "step-000000000009.pt.tmp", "");
  write_file(folder / "step-9.pt", "");
  write_file(folder / "notes.txt", "");
  const auto latest = manager.latest();
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->step, 2);
  ASSERT_EQ(latest->skipped.size(), 3u);
  EXPECT_TRUE(contains(latest->skipped[0], "checksum")) << latest->skipped[0];
  EXPECT_TRUE(contains(latest->skipped[1], "zip")) << latest->skipped[1];
  EXPECT_TRUE(contains(latest->skipped[2], "not a training checkpoint")) << latest->skipped[2];
  write_file(manager.path_of(1), "");
  write_file(manager.path_of(2), "");
  EXPECT_TRUE(contains(error_of([&] { manager.latest(); }), "none of the 5 checkpoints"));
}

TEST(CheckpointManager, temporary_files_of_killed_writers_are_removed) {
  const TemporaryFolder folder;
  const std::string mine = concat(".step-1.pt.tmp-", static_cast<int>(getpid()), "-7");
  write_file(folder / ".step-000000000001.pt.tmp-2147483646-0", "half");
  write_file(folder / mine, "being written");
  const CheckpointManager manager(folder.path());
  EXPECT_EQ(folder.names(), (std::vector<std::string>{mine}));
}

TEST(CheckpointManager, background_saving_sees_the_state_of_its_moment) {
  const TemporaryFolder folder;
  const Tensor weight = zeros({1000, 100});
  const Tensor part = weight.view(-1).slice(0, 0, 100, 2);
  {
    CheckpointManager manager(folder.path(), {.keep_last = 0, .background = true});
    for (int64_t step = 0; step < 10; ++step) {
      weight.fill_(static_cast<double>(step));
      manager.save(step, Value::List{weight, part, weight});
      weight.fill_(-1);
    }
  }
  CheckpointManager manager(folder.path());
  const std::vector<int64_t> steps = manager.steps();
  ASSERT_EQ(steps.size(), 10u);
  for (int64_t step : steps) {
    const Value state = io::load(manager.path_of(step)).at("state");
    EXPECT_EQ(state.at(0).to_tensor().mean().item<double>(), static_cast<double>(step));
    EXPECT_TRUE(state.at(0).to_tensor().shares_storage(state.at(1).to_tensor()));
    EXPECT_TRUE(state.at(0).to_tensor().is_same(state.at(2).to_tensor()));
    EXPECT_EQ(state.at(1).to_tensor().strides(), Strides({2}));
  }
}

TEST(CheckpointManager, background_errors_reach_the_next_call) {
  const TemporaryFolder folder;
  CheckpointManager manager(folder / "run", {.background = true});
  std::filesystem::remove_all(folder / "run");
  manager.save(1, state_of(1));
  EXPECT_TRUE(contains(error_of([&] { manager.wait(); }), "could not be created"));
  manager.save(1, state_of(1));
  EXPECT_FALSE(error_of([&] { manager.save(2, state_of(2)); }).empty());
  std::filesystem::create_directories(folder / "run");
  manager.save(3, state_of(3));
  manager.wait();
  EXPECT_EQ(manager.latest()->step, 3);
}

TEST(CheckpointManager, mistakes) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  EXPECT_TRUE(contains(error_of([&] { CheckpointManager(folder / "file"); }), "cannot be created"));
  EXPECT_TRUE(contains(error_of([&] { CheckpointManager(folder.path(), {.keep_last = -1}); }),
                       "keep_last"));
  CheckpointManager manager(folder.path());
  EXPECT_TRUE(contains(error_of([&] { manager.save(-1, {}); }), "step must not be negative"));
}

TEST(CheckpointManager, random_numbers_continue_where_they_were) {
  const TemporaryFolder folder;
  manual_seed(5);
  randn({10});
  CheckpointManager manager(folder.path());
  manager.save(1, default_generator().get_state());
  const Tensor expected = randn({10});
  default_generator().set_state(manager.latest()->state.to_tensor());
  EXPECT_TRUE(identical(randn({10}), expected));
}

}  // namespace
}  // namespace tensora::testing
