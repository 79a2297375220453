// Training an MLP 784-2048-2048-10 on two ranks of one thread each, against one process with two
// threads and the same global batch: what data-parallel training costs.
//
//   tensora-bench-distributed [BATCH] [REPETITIONS]
//
// The ranks are threads of this process. The two programs take turns, so that other work on the
// machine hits both; the figure is the ratio of the medians. Processor time says what the ranks
// compute twice, on a machine with other work, too: a rank without the others has half the batch.
#include <sys/resource.h>

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

/// Milliseconds of a step: on the wall, and of all threads' processors.
struct Times {
  double wall = 0, processor = 0, overlap = 0;
};

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class Watch {
 public:
  explicit Watch(int steps) : steps_(steps) {}
  Times per_step() const {
    const std::chrono::duration<double, std::milli> wall = Clock::now() - start_;
    return {wall.count() / steps_, 1e3 * (processor_seconds() - used_) / steps_};
  }

 private:
  int steps_;
  Clock::time_point start_ = Clock::now();
  double used_ = processor_seconds();
};

Times alone(int64_t batch, int steps, int threads) {
  set_num_threads(threads);
  Training training(batch);
  for (int i = 0; i < 2; ++i) training.step();
  const Watch watch(steps);
  for (int i = 0; i < steps; ++i) training.step();
  return watch.per_step();
}

Times on_two_ranks(int64_t batch, int steps, int stage) {
  set_num_threads(1);
  Times result;
  distributed::run_ranks(2, [&](ProcessGroup& world) {
    Training training(batch / 2);
    distributed::DataParallel parallel(training.model, {.zero_stage = stage});
    parallel.shard(training.optimizer);
    for (int i = 0; i < 2; ++i) training.step();
    parallel.reset_report();
    world.barrier();
    const Watch watch(steps);
    for (int i = 0; i < steps; ++i) training.step();
    world.barrier();
    if (world.rank() != 0) return;
    result = watch.per_step();
    result.overlap = parallel.report().overlap();
  });
  return result;
}

double median(const std::vector<Times>& times, double Times::*which) {
  std::vector<double> values;
  for (const Times& one : times) values.push_back(one.*which);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 256;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 5;
  constexpr int kSteps = 10;
  std::vector<Times> one, half, ranks[4];
  for (int i = 0; i < repetitions; ++i) {
    one.push_back(alone(batch, kSteps, 2));
    half.push_back(alone(batch / 2, kSteps, 1));
    for (int stage = 0; stage <= 3; ++stage)
      ranks[stage].push_back(on_two_ranks(batch, kSteps, stage));
  }
  const auto wall = [](const std::vector<Times>& times) { return median(times, &Times::wall); };
  const auto used = [](const std::vector<Times>& times) {
    return median(times, &Times::processor);
  };
  std::printf("MLP 784-2048-2048-10, global batch %lld, per step\n", static_cast<long long>(batch));
  std::printf("  one process, 2 threads        %8.2f ms            processor time %8.2f ms\n",
              wall(one), used(one));
  std::printf("  half the batch, twice                              processor time %8.2f ms\n",
              2 * used(half));
  for (int stage = 0; stage <= 3; ++stage)
    std::printf("  2 ranks x 1 thread, stage %d   %8.2f ms   %.2f x   processor time %8.2f ms\n",
                stage, wall(ranks[stage]), wall(one) / wall(ranks[stage]), used(ranks[stage]));
  std::printf("  stage 0: %.0f %% of the communication was hidden\n",
              100 * median(ranks[0], &Times::overlap));
}
