#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/distributed/scale_machine.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The median of a few runs, after one to warm up: of five if three take less than `limit` seconds.
template <class Body>
double seconds_of(const Body& body, double limit = 0.3) {
  body();
  std::vector<double> times;
  double total = 0;
  while (times.size() < 5 && (times.size() < 3 || total < limit)) {
    const Clock::time_point start = Clock::now();
    body();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    total += times.back();
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

RateCurve measure_products() {
  RateCurve curve;
  for (const int64_t n : {32, 96, 256, 768}) {
    const Tensor a = randn({n, n}), b = randn({n, n});
    const double flops = 2 * std::pow(static_cast<double>(n), 3);
    curve.push_back({flops, flops / seconds_of([&] { matmul(a, b); })});
  }
  return curve;
}

RateCurve measure_attention() {
  RateCurve curve;
  for (const int64_t length : {64, 256, 768}) {
    const Tensor x = randn({1, 4, length, 64});
    const double flops = 4.0 * static_cast<double>(x.numel() * length) / 2;
    curve.push_back({flops, flops / seconds_of([&] {
                              scaled_dot_product_attention(x, x, x, {}, 0, /*is_causal=*/true);
                            })});
  }
  return curve;
}

RateCurve measure_memory() {
  RateCurve curve;
  for (const int64_t count : {1 << 10, 1 << 15, 1 << 20, 1 << 23}) {
    const Tensor a = ones({count}), b = ones({count});
    const double bytes = 3.0 * static_cast<double>(a.nbytes());
    curve.push_back({bytes, bytes / seconds_of([&] { a + b; })});
  }
  return curve;
}

// What calls the other ranks must run equally often on all of them, so no rank's clock may end it.
template <class Body>
double seconds_of_collective(const Body& body) {
  return seconds_of(body, kInfinity);
}

// The latency of the smallest all_reduce, and the bandwidth of the size that reaches most.
void measure_link(ProcessGroup& world, ScaleMachine& machine) {
  const double n = world.size();
  double best = 0;
  double small = 1;
  for (const int64_t count : {int64_t{1}, int64_t{1} << 14, int64_t{1} << 18, int64_t{1} << 22}) {
    const Tensor x = ones({count});
    world.barrier();
    const double seconds = seconds_of_collective([&] { world.all_reduce(data_of(x))->wait(); });
    const Tensor slowest = full({1}, seconds, {.dtype = kFloat64});
    world.all_reduce(data_of(slowest), ReduceOp::maximum)->wait();
    const double agreed = slowest.item<double>();
    if (count == 1) small = agreed;
    const double moved = 2 * static_cast<double>(x.nbytes()) * (n - 1) / n;
    if (count > 1) best = std::max(best, moved / std::max(agreed - small, agreed * 0.1));
  }
  machine.call_seconds = small;
  machine.node = machine.network = {.latency = 0, .bandwidth = best};
}

// The share of its speed that computation loses while a collective runs: all of it where the ranks
// have no core to spare for the thread that communicates.
double measure_contention(ProcessGroup& world) {
  const Tensor x = ones({1 << 20}), a = randn({256, 256});
  const auto compute = [&] {
    for (int i = 0; i < 60; ++i) matmul(a, a);
  };
  const auto together = [&](const auto& body) {
    return seconds_of_collective([&] {
      world.barrier();
      body();
    });
  };
  const double alone = together(compute);
  const double call = together([&] { world.all_reduce(data_of(x))->wait(); });
  const double both = together([&] {
    const WorkPtr work = world.all_reduce(data_of(x));
    compute();
    work->wait();
  });
  const Tensor share = full({1}, std::clamp((both - alone) / call, 0.0, 0.95), {.dtype = kFloat64});
  world.all_reduce(data_of(share), ReduceOp::average)->wait();
  return share.item<double>();
}

}  // namespace

ScaleMachine measure_machine(ProcessGroup& world) {
  const no_grad silent;
  ScaleMachine machine;
  machine.name = "measured";
  machine.ranks_per_node = world.size();
  machine.products = measure_products();
  machine.attention = measure_attention();
  machine.memory = measure_memory();
  for (const RatePoint& point : machine.products)
    machine.peak_flops = std::max(machine.peak_flops, point.rate);
  const Tensor one = ones({1});
  machine.op_seconds = seconds_of([&] {
                         for (int i = 0; i < 100; ++i) one + one;
                       }) /
                       100;
  struct sysinfo system {};
  if (::sysinfo(&system) == 0)
    machine.memory_bytes =
        static_cast<double>(system.totalram) * static_cast<double>(system.mem_unit) / world.size();
  if (world.size() > 1) {
    measure_link(world, machine);
    machine.contention = measure_contention(world);
  } else {
    machine.node = machine.network = {.latency = 0, .bandwidth = rate_at(machine.memory, 1e9) / 3};
    machine.contention = 0.1;
  }
  machine.jitter = 0.02;
  return machine;
}

}  // namespace tensora::distributed
