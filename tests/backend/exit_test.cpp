// Destructors of static and thread_local objects may compute, in whatever order they run.
#include <thread>

#include "tensora/jit/compile.h"
#include "tests/backend/busy_pool.h"
#include "tests/helpers.h"

namespace tensora {
namespace {

/// Computes when it is destroyed, by every way that keeps memory per thread. The value of
/// `result` is the sum of a product of ones, or 0 before.
class Multiplies {
 public:
  explicit Multiplies(double* result) : result_(result) {}
  Multiplies(const Multiplies&) = delete;
  Multiplies& operator=(const Multiplies&) = delete;
  ~Multiplies() {
    const Tensor skinny = ones({3, 500}), wide = ones({300, 300}), half = wide.to(kBFloat16);
    double sum = matmul(skinny, skinny.t()).sum().item<double>();
    sum += matmul(wide, wide).sum().item<double>();
    sum += matmul(half, half).to(kFloat32).sum().item<double>();
    const Tensor weight = ones({8, 8}).requires_grad_();
    const autocast scope(AutocastOptions{.dtype = kBFloat16});
    sum += matmul(weight, weight).to(kFloat32).sum().item<double>();
    const auto twice = compile([](const Tensor& x) { return (x.t() * 2 + 1).relu(); });
    sum += twice(skinny).sum().item<double>();
    if (result_)
      *result_ = sum;
    else if (sum != kExpected)
      std::_Exit(7);
  }
  static constexpr double kExpected = 9 * 500 + 2 * 300.0 * 300 * 300 + 8 * 8 * 8 + 3 * 3 * 500;

 private:
  double* result_;
};

TEST(AtThreadEnd, ThreadLocalObjectsMayMultiply) {
  const testing::NumThreads one(1);
  for (const bool first : {true, false}) {
    double result = 0;
    std::thread([&] {
      const auto warm_up = [] {
        double ignored = 0;
        const Multiplies used(&ignored);
      };
      if (!first) warm_up();
      // Destroyed before or after what the library keeps for the thread.
      thread_local Multiplies late(&result);
      if (first) warm_up();
    }).join();
    EXPECT_EQ(result, Multiplies::kExpected) << first;
  }
}

// In a process of its own, whose status tells.
TEST(AtExit, StaticObjectsMayMultiply) {
  const auto leave = [](bool uses_first) {
    const testing::NumThreads one(1);
    double ignored = 0;
    if (uses_first) const Multiplies used(&ignored);
    static Multiplies last(nullptr);
    thread_local Multiplies of_thread(nullptr);
    if (!uses_first) const Multiplies used(&ignored);
    std::exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(leave(true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(leave(false), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tensora
