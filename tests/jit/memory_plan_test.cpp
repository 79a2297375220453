// The memory that a plan takes is counted before it runs, and is never more than eager's.
#include <gtest/gtest.h>

#include "tensora/core/backend.h"
#include "tensora/jit/compile.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

struct Peaks {
  int64_t planned = 0, op_by_op = 0;
};
/// The figures of the line "memory: at most … bytes at a time, op by op …".
Peaks peaks_of(const std::string& explained) {
  Peaks peaks;
  const size_t line = explained.find("memory: at most ");
  EXPECT_NE(line, std::string::npos) << explained;
  if (line == std::string::npos) return peaks;
  std::sscanf(explained.c_str() + line, "memory: at most %ld bytes at a time, op by op %ld",
              &peaks.planned, &peaks.op_by_op);
  return peaks;
}

/// What the allocator counts beyond what is there at the beginning.
template <class Body>
int64_t allocated_by(const Body& body) {
  allocator(Device()).reset_peaks();
  const auto before = static_cast<int64_t>(memory_stats().allocated);
  body();
  return static_cast<int64_t>(memory_stats().peak_allocated) - before;
}

TEST(MemoryPlan, ChainsTakeLess) {
  const Tensor x = ones({512, 512});
  const auto body = [&] { return ((x * 2 + 1).relu() * x).exp() + 1; };
  const Peaks peaks = peaks_of(compile(body).explain());
  EXPECT_EQ(peaks.planned, 512 * 512 * 4);
  EXPECT_EQ(peaks.op_by_op, 2 * 512 * 512 * 4);
}

TEST(MemoryPlan, GroupsThatKeepTheirOperandsTooLongAreClosedSooner) {
  const Tensor x = ones({1024, 512});
  // The small sums could run together at the end, with all of the large tensors in memory.
  const auto body = [&] {
    Tensor total = zeros({512});
    for (int i = 0; i < 8; ++i) total = total + x.cumsum(i % 2).select(0, i) * 2;
    return total;
  };
  const auto f = compile(body);
  const Peaks peaks = peaks_of(f.explain());
  const int64_t large = 1024 * 512 * 4;
  EXPECT_GE(peaks.op_by_op, large);
  EXPECT_LE(peaks.op_by_op, large + 8 * 2048);
  EXPECT_LE(peaks.planned, peaks.op_by_op + (64 << 10));
  EXPECT_EQ(to_vector<float>(f()), to_vector<float>(body()));
  const int64_t eager = allocated_by(body), fused = allocated_by(f);
  EXPECT_LE(fused, eager + (64 << 10));
}

TEST(MemoryPlan, EqualNodesRunAgainWhereTheirResultsWouldBeInTheWay) {
  const Tensor x = ones({600, 600});
  // The first and the last op are equal, and what is between them needs memory itself.
  const auto body = [&] {
    const Tensor first = x.cumsum(0).sum({0});
    Tensor middle = std::get<0>(x.cumsum(1).sort(-1)).sum({0});
    return first + middle + x.cumsum(0).amax({0});
  };
  const auto f = compile(body);
  const std::string text = f.explain();
  const Peaks peaks = peaks_of(text);
  EXPECT_LE(peaks.planned, peaks.op_by_op + (64 << 10)) << text;
  EXPECT_EQ(to_vector<float>(f()), to_vector<float>(body()));
}

TEST(MemoryPlan, ATrainingStepTakesNoMoreThanEager) {
  manual_seed(2);
  const Tensor x = randn({256, 512}), target = randn({256, 64});
  const Tensor w = randn({512, 1024}).requires_grad_(), v = randn({1024, 64}).requires_grad_();
  const auto step = [&] {
    const Tensor loss = (matmul(gelu(matmul(x, w)) * 0.1, v) - target).square().mean();
    loss.backward();
    const no_grad silent;
    for (const Tensor& p : {w, v}) {
      p.sub_(p.grad() * 1e-4);
      p.set_grad({});
    }
    return loss.detach();
  };
  step();
  const auto f = compile(step);
  f();
  const int64_t eager = allocated_by(step), fused = allocated_by(f);
  EXPECT_LE(fused, eager + (64 << 10));
}

}  // namespace
}  // namespace tensora::test
