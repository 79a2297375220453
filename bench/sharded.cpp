// Host time of ops on sharded tensors: what dividing a call costs beside the op itself.
//
//   tensora-bench-sharded [REPETITIONS]
//
// Two ranks, threads of this process. The tensors are tiny, so that the figures are overhead. Times
// are a thread's processor time, so that other work on the machine counts little; the median, and
// the best in brackets.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/thread_pool.h"
#include "tensora/distributed/divided_tensor.h"
#include "tensora/distributed/sharded_call.h"
#include "tensora/distributed/threads.h"
#include "tensora/ops.h"

namespace {

using namespace tensora;
using namespace tensora::distributed;

constexpr int kCalls = 2000;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double processor_microseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

template <class Body>
double microseconds(const Body& body) {
  const double start = processor_microseconds();
  for (int i = 0; i < kCalls; ++i) body();
  return (processor_microseconds() - start) / kCalls;
}

void print(const char* name, const std::vector<double>& values, const char* more = "\n") {
  std::printf("%s %6.2f us (%.2f)%s", name, median(values), *std::ranges::min_element(values),
              more);
}

struct Row {
  const char* name;
  std::vector<double> plain, sharded;
};

// The same calls on this rank's part and on the stand-in, which add no communication.
void measure(const ShardedTensor& x, const ShardedTensor& w, std::vector<Row>& rows, bool keeps) {
  const Tensor local_x = x.to_local(), local_w = w.to_local();
  const auto take = [&](size_t row, const auto& op) {
    const double plain = microseconds([&] { op(local_x, local_w); });
    double sharded = 0;
    call_sharded(
        [&](std::span<const Tensor> in) {
          sharded = microseconds([&] { op(in[0], in[1]); });
          return TensorList{in[0]};
        },
        {x, w}, {.strict = true});
    if (!keeps) return;
    rows[row].plain.push_back(plain);
    rows[row].sharded.push_back(sharded);
  };
  take(0, [](const Tensor& a, const Tensor&) { return a + a; });
  take(1, [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  take(2, [](const Tensor& a, const Tensor&) { return relu(a); });
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 5;
  set_num_threads(1);
  const no_grad silent;
  std::vector<Row> rows = {{"add", {}, {}}, {"matmul", {}, {}}, {"relu", {}, {}}};
  std::vector<double> cut, gather;
  run_ranks(2, [&](ProcessGroup& world) {
    const DeviceMesh mesh = device_mesh({2});
    const ShardedTensor x = distribute_tensor(randn({8, 8}), mesh, {Placement::shard(0)});
    const ShardedTensor w = distribute_tensor(randn({8, 8}), mesh, {Placement::replicate()});
    for (int i = 0; i < repetitions; ++i) {
      world.barrier();
      measure(x, w, rows, world.rank() == 0);
      const double one = microseconds([&] { w.redistribute({Placement::shard(0)}); });
      world.barrier();
      const double two = microseconds([&] { x.redistribute({Placement::replicate()}); });
      if (world.rank() != 0) continue;
      cut.push_back(one);
      gather.push_back(two);
    }
  });
  // Both parts of a tensor that one process has divided; the plain op has all elements.
  const Tensor whole = randn({8, 8}), divided = whole.clone();
  distributed::shard_(divided, std::vector<Device>(2, Device()), 0);
  Row in_process{"add, divided in one process:", {}, {}};
  for (int i = 0; i < repetitions; ++i) {
    in_process.plain.push_back(microseconds([&] { whole + whole; }));
    in_process.sharded.push_back(microseconds([&] { divided + divided; }));
  }
  rows.push_back(in_process);
  for (const Row& row : rows) {
    print(row.name, row.plain, ", ");
    print("sharded", row.sharded);
  }
  print("redistribute Replicate to Shard", cut);
  print("redistribute Shard to Replicate, with the exchange", gather);
}
