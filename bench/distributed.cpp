// Training an MLP 784-2048-2048-10 on two ranks of one thread each, against one process with two
// threads and the same global batch: what data-parallel training costs.
//
//   tensora-bench-distributed [BATCH] [REPETITIONS]
//
// The ranks are threads of this process. The two programs take turns, so that other work on the
// machine hits both; the figure is the ratio of the medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tensora/base/thread_pool.h"
#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/threads.h"
#include "tensora/models/mlp.h"
#include "tensora/ops.h"
#include "tensora/optim/sgd.h"

namespace {

using namespace tensora;
using Clock = std::chrono::steady_clock;

struct Training {
  explicit Training(int64_t batch) : model({784, 2048, 2048, 10}), optimizer(model.parameters()) {
    x = randn({batch, 784});
    y = randint(0, 10, {batch}, {.dtype = kInt64});
  }
  void step() {
    cross_entropy(model(x), y).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  models::MLP model;
  optim::SGD optimizer;
  Tensor x, y;
};

double milliseconds_per_step(int steps, Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / steps;
}

double alone(int64_t batch, int steps) {
  set_num_threads(2);
  Training training(batch);
  for (int i = 0; i < 2; ++i) training.step();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < steps; ++i) training.step();
  return milliseconds_per_step(steps, start);
}

struct OnRanks {
  double milliseconds = 0, overlap = 0;
};

OnRanks on_two_ranks(int64_t batch, int steps, int stage) {
  set_num_threads(1);
  OnRanks result;
  distributed::run_ranks(2, [&](ProcessGroup& world) {
    Training training(batch / 2);
    distributed::DataParallel parallel(training.model, {.zero_stage = stage});
    parallel.shard(training.optimizer);
    for (int i = 0; i < 2; ++i) training.step();
    parallel.reset_report();
    world.barrier();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < steps; ++i) training.step();
    world.barrier();
    if (world.rank() == 0)
      result = {milliseconds_per_step(steps, start), parallel.report().overlap()};
  });
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 256;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 5;
  constexpr int kSteps = 10;
  std::vector<double> one;
  std::vector<double> ranks[4];
  double overlap = 0;
  for (int i = 0; i < repetitions; ++i) {
    one.push_back(alone(batch, kSteps));
    for (int stage = 0; stage <= 3; ++stage) {
      const OnRanks result = on_two_ranks(batch, kSteps, stage);
      ranks[stage].push_back(result.milliseconds);
      if (stage == 0) overlap = result.overlap;
    }
  }
  std::printf("MLP 784-2048-2048-10, global batch %lld\n", static_cast<long long>(batch));
  std::printf("  one process, 2 threads        %8.2f ms a step\n", median(one));
  for (int stage = 0; stage <= 3; ++stage)
    std::printf("  2 ranks x 1 thread, stage %d   %8.2f ms a step   %.2f x\n", stage,
                median(ranks[stage]), median(one) / median(ranks[stage]));
  std::printf("  stage 0: %.0f %% of the communication was hidden\n", 100 * overlap);
}
