// All-reduce between processes: time by size, and how much of it hides behind computation.
// bench/all_reduce.py starts the ranks and the peers.

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "tensora/distributed/init.h"
#include "tensora/tensora.h"

namespace {

using namespace tensora;

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of this thread, on which a blocking call runs.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The median of many calls, and the least processor time of one, which other work on the machine
// changes less; bench/all_reduce.py has the same sizes and counts for the peers.
void measure_sizes(ProcessGroup& world) {
  for (int64_t bytes : {int64_t{4}, int64_t{1} << 10, int64_t{64} << 10, int64_t{1} << 20,
                        int64_t{4} << 20, int64_t{25} << 20, int64_t{64} << 20}) {
    const Tensor x = zeros({bytes / 4});
    const size_t calls = bytes < 100'000 ? 1000 : bytes < 10'000'000 ? 60 : 15;
    std::vector<double> times;
    double least = 1e9;
    for (size_t i = 0; i < calls; ++i) {
      const double before = processor_seconds();
      times.push_back(seconds_of(
          [&] { world.all_reduce(x.view_of_data(), ReduceOp::sum, CallMode::blocking)->wait(); }));
      least = std::min(least, processor_seconds() - before);
    }
    std::ranges::nth_element(times, times.begin() + static_cast<int64_t>(calls / 2));
    if (world.rank() == 0)
      std::printf("all_reduce %lld %.2f us, at least %.2f us of processor time\n",
                  static_cast<long long>(bytes), times[calls / 2] * 1e6, least * 1e6);
  }
}

void measure_overlap(ProcessGroup& world) {
  const Tensor x = zeros({16 << 20}), a = rand({512, 512});
  const auto compute = [&] {
    for (int i = 0; i < 40; ++i) matmul(a, a);
  };
  const auto call = [&] { return world.all_reduce(x.view_of_data()); };
  for (int round = 0; round < 3; ++round) {
    world.barrier();
    const double alone = seconds_of(compute);
    world.barrier();
    const double sent = seconds_of([&] { call()->wait(); });
    world.barrier();
    const double both = seconds_of([&] {
      const WorkPtr work = call();
      compute();
      work->wait();
    });
    if (world.rank() == 0)
      std::printf("overlap: compute %.1f ms, all_reduce of 64 MiB %.1f ms, both %.1f ms\n",
                  alone * 1e3, sent * 1e3, both * 1e3);
  }
}

}  // namespace

int main() {
  return distributed::run([](ProcessGroup& world) {
    measure_sizes(world);
    measure_overlap(world);
  });
}
