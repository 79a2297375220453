// The program of tests between processes: `tensora-ranks WHAT`, started by `tensora launch` or
// mpirun. Each rank checks its own results; what goes wrong is an exception, and so the exit
// status.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "tensora/core/queue.h"
#include "tensora/distributed/init.h"
#include "tensora/distributed/threads.h"
#include "tensora/tensora.h"
#include "tests/distributed/ranks_oracle.h"
#include "tests/distributed/ranks_training.h"

namespace {

using namespace tensora;

View view(const Tensor& tensor) { return tensor.view_of_data(); }

Tensor values_of(int rank, int64_t n, DType dtype) {
  const Tensor index = arange(n, {.dtype = kFloat64});
  return (sin(index * (rank + 1.7)) * (rank % 2 ? 1e4 : 1.0) + rank).to(dtype);
}

Tensor expected_sum(int ranks, int64_t n, DType dtype) {
  const bool narrow = dtype == kFloat16 || dtype == kBFloat16;
  const DType sums = narrow ? kFloat32 : dtype;
  Tensor total = values_of(0, n, dtype).to(sums);
  for (int r = 1; r < ranks; ++r) total = total + values_of(r, n, dtype).to(sums);
  return total.to(dtype);
}

void expect(bool ok, const std::string& what) { check(ok, "wrong result: ", what); }

void check_reductions(ProcessGroup& world) {
  for (CallMode mode : {CallMode::asynchronous, CallMode::blocking})
    for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32})
      // Below and above the limit of one step, and more than two pieces.
      for (int64_t n : {0, 1, 1000, 5000, 200'001, 1'700'003}) {
        if (n > 300'000 && dtype != kFloat32) continue;
        Tensor x = values_of(world.rank(), n, dtype);
        world.all_reduce(view(x), ReduceOp::sum, mode)->wait();
        expect(equal(x, expected_sum(world.size(), n, dtype)),
               concat("all_reduce of ", n, " ", dtype));
      }
  const int64_t part = 300'001;
  const int64_t whole = part * world.size();
  const Tensor in = values_of(world.rank(), whole, kFloat32);
  Tensor mine = empty({part}), all = empty({whole});
  world.reduce_scatter(view(mine), view(in))->wait();
  const Tensor sum = expected_sum(world.size(), whole, kFloat32);
  expect(equal(mine, sum.slice(0, part * world.rank(), part * (world.rank() + 1))),
         "reduce_scatter");
  world.all_gather(view(all), view(mine))->wait();
  expect(equal(all, sum), "all_gather");
  Tensor y = full({70'000}, world.rank() * 1.0);
  world.all_reduce(view(y), ReduceOp::average)->wait();
  expect(y[69'999].item<double>() == (world.size() - 1) / 2.0, "average");
  world.reduce(view(y), world.size() - 1, ReduceOp::maximum)->wait();
}

void check_exchanges(ProcessGroup& world) {
  const int ranks = world.size(), rank = world.rank();
  for (int64_t part : {0, 3, 400'000}) {
    const Tensor in = values_of(rank, part * ranks, kFloat32);
    Tensor out = empty({part * ranks});
    world.all_to_all(view(out), view(in))->wait();
    for (int r = 0; r < ranks; ++r)
      expect(equal(out.slice(0, part * r, part * (r + 1)),
                   values_of(r, part * ranks, kFloat32).slice(0, part * rank, part * (rank + 1))),
             "all_to_all");
  }
  std::vector<int64_t> in_counts, out_counts;
  int64_t sent = 0, got = 0;
  for (int r = 0; r < ranks; ++r) {
    in_counts.push_back((rank + 2 * r) % 5 * 100'000);
    out_counts.push_back((r + 2 * rank) % 5 * 100'000);
    sent += in_counts.back();
    got += out_counts.back();
  }
  const Tensor in = full({sent}, rank * 1.0);
  Tensor out = empty({got});
  world.all_to_all(view(out), out_counts, view(in), in_counts)->wait();
  int64_t at = 0;
  for (int r = 0; r < ranks; at += out_counts[static_cast<size_t>(r++)])
    if (const int64_t n = out_counts[static_cast<size_t>(r)])
      expect(equal(out.slice(0, at, at + n), full({n}, r * 1.0)), "all_to_all with counts");
  Tensor text = full({1'000'000}, rank * 1.0);
  world.broadcast(view(text), ranks - 1)->wait();
  expect(text[999'999].item<double>() == ranks - 1, "broadcast");
  if (ranks == 1) return;
  // Everybody sends first, more than a mailbox holds.
  const Tensor mine = full({100'000}, rank * 1.0);
  Tensor theirs = empty({100'000});
  const WorkPtr to_next = world.send(view(mine), (rank + 1) % ranks);
  world.recv(view(theirs), (rank + ranks - 1) % ranks)->wait();
  to_next->wait();
  expect(theirs[99'999].item<double>() == (rank + ranks - 1) % ranks, "send and recv");
}

// A message waits for its partner alone, not for calls that were begun before it.
void check_messages(ProcessGroup& world) {
  const int rank = world.rank();
  const int64_t n = 100'000;  // more than a mailbox holds
  Tensor sum = ones({n}), one = full({n}, rank * 1.0), first = empty({n}), second = empty({n});
  if (rank == 0) {
    const WorkPtr later = world.recv(view(first), 1);
    world.all_reduce(view(sum))->wait();
    later->wait();
    expect(first[n - 1].item<double>() == 1, "recv behind a collective");
  } else {
    world.all_reduce(view(sum))->wait();
    if (rank == 1) world.send(view(one), 0)->wait();
  }
  if (world.size() < 3 || rank > 2) return;
  if (rank == 0) {
    const WorkPtr from_first = world.recv(view(first), 1),
                  from_second = world.recv(view(second), 2);
    from_first->wait();
    from_second->wait();
    expect(first[0].item<double>() == 2 && second[0].item<double>() == 2, "messages of two ranks");
  } else if (rank == 1) {  // passes on what it gets
    world.recv(view(first), 2)->wait();
    world.send(view(first), 0)->wait();
  } else {
    const WorkPtr to_zero = world.send(view(one), 0), to_one = world.send(view(one), 1);
    to_one->wait();
    to_zero->wait();
  }
}

void check_groups(ProcessGroup& world) {
  const auto parity = world.split(world.rank() % 2, 0, "parity");
  Tensor x = ones({40'000});
  parity->all_reduce(view(x))->wait();
  expect(x[0].item<double>() == parity->size(), "all_reduce in a split");
  std::vector<Tensor> many;
  std::vector<WorkPtr> works;
  for (int i = 0; i < 50; ++i) {
    many.push_back(full({1000}, i * 1.0));
    works.push_back((i % 2 ? *parity : world).all_reduce(view(many.back())));
  }
  for (int i = 0; i < 50; ++i) {
    works[static_cast<size_t>(i)]->wait();
    expect(many[static_cast<size_t>(i)][0].item<double>() ==
               i * (i % 2 ? parity->size() : world.size()),
           "many calls at once");
  }
  world.barrier();
}

void check_all(ProcessGroup& world) {
  check_reductions(world);
  check_exchanges(world);
  if (world.size() > 1) check_messages(world);
  check_groups(world);
  if (world.rank() == 0)
    std::printf("%d ranks by %s: all right\n", world.size(), std::string(world.backend()).c_str());
}

// The last rank does it; the others go on calling. Each prints how long it took until it knew.
void fail_with(ProcessGroup& world, const std::function<void()>& fault) {
  Tensor x = ones({1000});
  for (int i = 0; i < 20; ++i) world.all_reduce(view(x))->wait();
  const auto start = std::chrono::steady_clock::now();
  if (world.rank() == world.size() - 1) fault();
  try {
    while (true) {
      world.all_reduce(view(x), ReduceOp::average)->wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const GroupError& error) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("rank %d knew after %.2f s: %s\n", world.rank(), seconds, error.what());
    std::fflush(stdout);
    throw;
  }
}

// The system gives this process another 64 MiB, and no more.
void run_out_of_memory() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + (64 << 20);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
  std::vector<Tensor> kept;
  while (true) kept.push_back(ones({1 << 20}));
}

// The last rank comes late once, but within the limit.
void come_late(ProcessGroup& world) {
  const Tensor x = ones({1000});
  for (int i = 0; i < 20; ++i) {
    if (i == 10 && world.rank() == world.size() - 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    world.all_reduce(view(x), ReduceOp::average)->wait();
  }
  expect(x[999].item<double>() == 1, "average after a slow call");
  if (world.rank() == 0) std::printf("all came in the end\n");
}

void disagree(ProcessGroup& world, const std::string& about) {
  const bool odd = world.rank() == world.size() - 1;
  const Tensor x = ones({8}), y = ones({9}), z = ones({8}, {.dtype = kInt32});
  world.barrier();
  if (about == "order") {
    world.all_reduce(view(odd ? y : x))->wait();
    world.all_reduce(view(odd ? x : y))->wait();
  }
  if (about == "size") world.all_reduce(view(odd ? y : x))->wait();
  if (about == "dtype") world.all_reduce(view(odd ? z : x))->wait();
  if (about == "op") world.all_reduce(view(x), odd ? ReduceOp::maximum : ReduceOp::sum)->wait();
  if (about == "call")
    odd ? world.broadcast(view(x), 0)->wait() : world.all_reduce(view(x))->wait();
  if (about == "mode")  // of waiting, about which ranks need not agree
    world.all_reduce(view(x), ReduceOp::sum, odd ? CallMode::blocking : CallMode::asynchronous)
        ->wait();
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ranks as threads on one GPU: the bits of the CPU.
void check_on_gpu() {
  distributed::run_ranks(4, [](ProcessGroup& world) {
    for (DType dtype : {kFloat32, kBFloat16})
      for (int64_t n : {int64_t{1000}, int64_t{1} << 24}) {
        const Tensor start = values_of(world.rank(), n, dtype).to(Device("cuda"));
        Tensor x = start.clone();
        world.all_reduce(view(x))->wait();
        expect(n > 2000 || equal(x.cpu(), expected_sum(world.size(), n, dtype)),
               "all_reduce on a GPU");
        world.barrier();
        const double seconds = seconds_of([&] {
          for (int i = 0; i < 10; ++i) world.all_reduce(view(x))->wait();
          synchronize(Device("cuda"));
        });
        if (world.rank() == 0)
          std::printf("threads on one GPU, 4 ranks, %lld %s: %.1f us\n", static_cast<long long>(n),
                      std::string(name(dtype)).c_str(), seconds * 1e5);
      }
  });
}

// A world of one over NCCL: values, time of a call, and a captured graph of calls.
void check_nccl(ProcessGroup& world) {
  const Device gpu("cuda");
  for (DType dtype : {kFloat32, kBFloat16, kInt64, kBool}) {
    const Tensor start = ones({1000}, {.dtype = dtype, .device = gpu});
    Tensor x = start.clone(), y = zeros({1000}, {.dtype = dtype, .device = gpu});
    world.all_reduce(view(x))->wait();
    world.all_gather(view(y), view(x))->wait();
    world.reduce_scatter(view(x), view(y))->wait();
    world.all_to_all(view(y), view(x))->wait();
    world.broadcast(view(y), 0)->wait();
    world.barrier();
    expect(equal(y.cpu(), start.cpu()), concat("collectives of one rank in ", dtype));
  }
  for (int64_t n : {int64_t{1}, int64_t{1} << 24}) {
    Tensor x = ones({n}, {.device = gpu});
    for (int i = 0; i < 10; ++i) world.all_reduce(view(x))->wait();
    synchronize(gpu);
    const int calls = 200;
    double queued = 0;
    const double seconds = seconds_of([&] {
      queued = seconds_of([&] {
        for (int i = 0; i < calls; ++i) world.all_reduce(view(x))->wait();
      });
      synchronize(gpu);
    });
    std::printf("nccl, one rank, %lld floats: %.1f us a call, of which the host %.1f\n",
                static_cast<long long>(n), seconds / calls * 1e6, queued / calls * 1e6);
  }
  Tensor x = ones({1000}, {.device = gpu});
  const auto step = [&] {
    x.mul_(2.0);
    world.all_reduce(view(x))->wait();
  };
  step();
  const auto recorded = queue_control(gpu.type)->record(gpu, step);
  for (int i = 0; i < 3; ++i) recorded->replay();
  expect(x[999].item<double>() == 16, "a captured step");
  std::printf("nccl, one rank: a captured step is right\n");
}

void train(ProcessGroup& world) {
  const std::string text = tensora::testing::train_all_ways(world);
  if (world.rank() == 0) std::fputs(text.c_str(), stdout);
}

void run_as(ProcessGroup& world, const std::string& what, int attempt) {
  if (what == "check") return check_all(world);
  if (what == "train") return train(world);
  if (what == "train-threads") return distributed::run_ranks(3, train);
  if (what == "gpu") return check_on_gpu();
  if (what == "nccl") return check_nccl(world);
  if (what == "kill") return fail_with(world, [] { ::kill(::getpid(), SIGKILL); });
  if (what == "stop") return fail_with(world, [] { ::kill(::getpid(), SIGSTOP); });
  if (what == "exit") return fail_with(world, [] { ::_exit(7); });
  if (what == "memory") return fail_with(world, run_out_of_memory);
  if (what == "late") return come_late(world);
  if (what == "forever") return fail_with(world, [] {});
  if (what == "throw") return fail_with(world, [] { fail("out of luck"); });
  if (what == "leave" && world.rank() == world.size() - 1) return;
  if (what == "leave") return world.barrier();
  if (what == "kill-once" && attempt == 0)
    return fail_with(world, [] { ::kill(::getpid(), SIGKILL); });
  if (what == "kill-once") return check_groups(world);
  if (what == "sleep") return std::this_thread::sleep_for(std::chrono::seconds(60));
  disagree(world, what);
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr,
                 "usage: tensora-ranks WHAT [LIMIT [WARN_AFTER [JOIN_LIMIT]]], or oracle FOLDER\n");
    return 2;
  }
  if (count == 3 && std::string(words[1]) == "oracle")
    return distributed::run(
        [&](ProcessGroup& world) { tensora::testing::make_all_calls(world, words[2]); });
  distributed::InitOptions options;
  if (count > 2) options.group.limit = std::stod(words[2]);
  if (count > 3) options.group.warn_after = std::stod(words[3]);
  if (count > 4) options.join_limit = std::stod(words[4]);
  if (std::string(words[1]) == "nccl") options.backend = "nccl";
  const char* const attempt = std::getenv("TENSORA_RESTART");
  return distributed::run(
      [&](ProcessGroup& world) { run_as(world, words[1], attempt ? std::atoi(attempt) : 0); },
      options);
}
