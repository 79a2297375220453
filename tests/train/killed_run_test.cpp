// A run that is killed at any moment and resumed gives, bit for bit, the losses of one that was
// not.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "../helpers.h"
#include "tensora/io.h"

extern char** environ;

namespace tensora::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kSteps = 150, kSamples = 48, kBatch = 8;

// ---- the run

// A small network with dropout, trained by AdamW on data in a shuffled order.
class TrainingRun {
 public:
  TrainingRun(const std::string& folder, bool background)
      : checkpoints_(folder, {.keep_last = 2, .background = background}) {
    manual_seed(3);
    inputs_ = randn({kSamples, 6});
    targets_ = inputs_.sin().sum(1, true);
    for (const Shape& sizes : {Shape{6, 16}, Shape{16}, Shape{16, 1}, Shape{1}}) {
      parameters_.push_back((randn(sizes) * 0.3).requires_grad_());
      momenta_.push_back(zeros(sizes));
      squares_.push_back(zeros(sizes));
    }
    losses_ = zeros({kSteps});
    order_ = zeros({kSamples}, kInt64);
    if (const auto checkpoint = checkpoints_.latest()) restore(checkpoint->state);
  }

  void finish() {
    for (; step_ < kSteps; save()) {
      const int64_t position = step_ * kBatch % kSamples;
      if (position == 0) order_ = randperm(kSamples);
      const Tensor rows = order_.slice(0, position, position + kBatch);
      train(inputs_.index_select(0, rows), targets_.index_select(0, rows));
    }
    checkpoints_.wait();
  }

  const Tensor& losses() const { return losses_; }

 private:
  void train(const Tensor& x, const Tensor& target) {
    const Tensor hidden = dropout((x.matmul(parameters_[0]) + parameters_[1]).tanh(), 0.2);
    const Tensor loss = (hidden.matmul(parameters_[2]) + parameters_[3] - target).square().mean();
    loss.backward();
    losses_[step_++] = loss.detach();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      adam_(parameters_[i].detach(), momenta_[i], squares_[i], parameters_[i].grad(),
            {.lr = 0.01, .weight_decay = 0.01, .step = step_, .decoupled = true});
      parameters_[i].set_grad({});
    }
  }

  void save() {
    Value state = Value::dict();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Value::Key key(static_cast<int64_t>(i));
      state["model"][key] = parameters_[i].detach();
      state["optimizer"][key] = Value::List{momenta_[i], squares_[i]};
    }
    state["random"] = default_generator().get_state();
    state["order"] = order_;
    state["step"] = step_;
    state["losses"] = losses_;
    checkpoints_.save(step_, state);
  }

  void restore(const Value& state) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Value::Key key(static_cast<int64_t>(i));
      parameters_[i].detach().copy_(state.at("model").at(key).to_tensor());
      momenta_[i] = state.at("optimizer").at(key).at(0).to_tensor();
      squares_[i] = state.at("optimizer").at(key).at(1).to_tensor();
    }
    default_generator().set_state(state.at("random").to_tensor());
    order_ = state.at("order").to_tensor();
    step_ = state.at("step").to_int();
    losses_ = state.at("losses").to_tensor();
  }

  io::CheckpointManager checkpoints_;
  Tensor inputs_, targets_, losses_, order_;
  std::vector<Tensor> parameters_, momenta_, squares_;
  int64_t step_ = 0;
};

// ---- the processes

constexpr const char* kFolderVariable = "TENSORA_TEST_KILLED_RUN";
constexpr int kReadyDescriptor = 9;

// What a killed process runs; the test below starts this program again with this test alone.
TEST(KilledRun, process) {
  const char* folder = std::getenv(kFolderVariable);
  if (!folder) GTEST_SKIP() << "started by the test below only";
  TrainingRun run(folder, std::string(folder).ends_with("background"));
  EXPECT_EQ(write(kReadyDescriptor, "r", 1), 1);
  run.finish();
  io::save_npy(run.losses(), std::string(folder) + "/losses.npy");
}

class Process {
 public:
  explicit Process(const std::string& folder) {
    int ends[2];
    check(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    ready_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kReadyDescriptor);
    std::string variable = concat(kFolderVariable, "=", folder);
    std::vector<char*> variables;
    for (char** entry = environ; *entry; ++entry) variables.push_back(*entry);
    variables.push_back(variable.data());
    variables.push_back(nullptr);
    std::string name = "killed-run", filter = "--gtest_filter=KilledRun.process";
    char* arguments[] = {name.data(), filter.data(), nullptr};
    const int error =
        posix_spawn(&id_, "/proc/self/exe", &actions, nullptr, arguments, variables.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    check(error == 0, "the process did not start");
  }
  ~Process() { close(ready_); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Until it has loaded its checkpoint.
  void wait_until_ready() const {
    pollfd descriptor{ready_, POLLIN, 0};
    poll(&descriptor, 1, 30000);
  }
  void kill() const { ::kill(id_, SIGKILL); }
  int wait() const {
    int status = 0;
    waitpid(id_, &status, 0);
    return status;
  }

 private:
  pid_t id_ = 0;
  int ready_ = -1;
};

TEST(KilledRun, gives_the_losses_of_an_uninterrupted_one) {
  if (std::getenv(kFolderVariable)) GTEST_SKIP() << "this process is the run that is killed";
  const fs::path root =
      fs::temp_directory_path() / concat("tensora-killed-", static_cast<int>(getpid()));
  fs::create_directories(root / "whole");
  const auto start = Clock::now();
  const Process whole(root / "whole");
  ASSERT_EQ(whole.wait(), 0);
  const std::chrono::duration<double> duration = Clock::now() - start;
  const std::string file = "losses.npy";
  const Tensor expected = io::load_npy(root / "whole" / file);
  ASSERT_LT(expected[kSteps - 1].item<double>(), 0.5 * expected[0].item<double>());

  std::mt19937 random(11);
  int kills = 0, finished = 0;
  for (int round = 0; kills < 50; ++round) {
    const fs::path folder = root / (round % 2 ? "killed" : "killed-in-background");
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (bool done = false; !done;) {
      const Process process(folder);
      // Mostly while it trains, sometimes while it starts.
      if (kills % 8 != 0) process.wait_until_ready();
      const double part = std::uniform_real_distribution<>(0, 0.25)(random);
      if (kills < 50) {
        std::this_thread::sleep_for(duration * part);
        process.kill();
      }
      const int status = process.wait();
      ASSERT_TRUE(WIFSIGNALED(status) || status == 0) << "the resumed run failed";
      kills += WIFSIGNALED(status);
      done = !WIFSIGNALED(status);
    }
    const Tensor losses = io::load_npy(folder / file);
    EXPECT_EQ(std::memcmp(losses.data_ptr(), expected.data_ptr(), expected.nbytes()), 0) << round;
    ++finished;
  }
  EXPECT_GE(kills, 50);
  EXPECT_GE(finished, 1);
  fs::remove_all(root);
}

}  // namespace
}  // namespace tensora::testing
