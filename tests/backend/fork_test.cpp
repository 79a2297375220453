// A child that is forked while other threads are in the middle of allocations, products and draws
// can go on computing.
#include <sys/wait.h>
#include <unistd.h>
#include <cmath>

#include <atomic>
#include <thread>

#include "tensora/backend/cpu/memory.h"
#include "tests/backend/busy_pool.h"
#include "tests/helpers.h"

namespace tensora {
namespace {

/// Runs `body` in a forked child; whether it returned true. A child that hangs is ended by a
/// signal.
template <class Body>
bool in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool right = false;
    try {
      right = body();
    } catch (...) {
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

bool computes() {
  const Tensor x = randn({100, 200});
  const Tensor product = matmul(x, x.t());
  const double sum = (x * x).sum().item<double>(), trace = product.diagonal().sum().item<double>();
  return std::abs(sum - trace) < 1e-3 * sum && memory_stats().allocated > 0;
}

class Fork : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not allow new threads after a fork";
#elif defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "AddressSanitizer's own allocator may be locked in the child";
#endif
  }

  /// Forks again and again while other threads do `work`.
  template <class Work>
  void fork_during(Work work) {
    const testing::NumThreads two(2);
    ASSERT_TRUE(computes());
    std::atomic<bool> done = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        while (!done) work();
      });
    int right = 0;
    constexpr int kForks = 25;
    for (int i = 0; i < kForks; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(300 + 37 * i));
      right += in_child(computes) ? 1 : 0;
    }
    done = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, kForks);
    EXPECT_TRUE(computes());
  }
};

TEST_F(Fork, WhileOthersAllocate) {
  fork_during([] {
    for (const size_t bytes : {size_t{100}, size_t{5000}, size_t{70'000}}) {
      Allocator& host = cpu::host_allocator();
      host.free(host.allocate(bytes), bytes);
      host.stats();
    }
    cpu::host_allocator().empty_cache();
  });
}

TEST_F(Fork, WhileOthersDrawNumbers) {
  fork_during([] {
    for (int i = 0; i < 1000; ++i) default_generator().reserve(1);
    Generator own(3);
    for (int i = 0; i < 1000; ++i) own.reserve(1);
  });
}

TEST_F(Fork, WhileOthersMultiply) {
  const Tensor a = ones({160, 160}, {.dtype = kFloat64}), b = ones({400, 300});
  fork_during([&] {
    matmul(a, a);
    matmul(b, b.t());
  });
}

// Everything that is made on first use is made while another thread forks: in a process of its own,
// in which nothing has been used yet.
TEST_F(Fork, DuringFirstUse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto first_use = [](int delay) {
    std::thread other([] {
      computes();
      svd(randn({4, 3}));
    });
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
    const bool right = in_child([] {
      svd(randn({4, 3}));
      return computes();
    });
    other.join();
    std::_Exit(right ? 0 : 1);
  };
  for (int i = 0; i < 12; ++i)
    EXPECT_EXIT(first_use(i * 1500), ::testing::ExitedWithCode(0), "") << i;
}

TEST_F(Fork, WhileAnotherThreadHoldsThePool) {
  const testing::NumThreads two(2);
  const testing::BusyPool busy;
  EXPECT_TRUE(in_child(computes));
}

}  // namespace
}  // namespace tensora
