#include "tensora/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensora/base/check.h"

namespace tensora {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges ranges_of(int64_t n, int64_t grain) {
  std::mutex mutex;
  Ranges ranges;
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

/// Holds the caller until all `n` threads of a region have a range, to prove that they exist.
class Meeting {
 public:
  explicit Meeting(int n) : missing_(n) {}
  bool wait() {
    missing_.fetch_sub(1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (missing_.load() > 0) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  std::atomic<int> missing_;
};

class ThreadPool : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = get_num_threads();
    set_num_threads(4);
  }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = 1;
};

TEST_F(ThreadPool, CoversTheRangeOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (const int64_t n : {1, 2, 7, 64, 1000, 4097}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
        });
        for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1) << n << " " << grain;
      }
    }
  }
}

TEST_F(ThreadPool, EmptyRangeDoesNotCallTheBody) {
  EXPECT_TRUE(ranges_of(0, 1).empty());
  EXPECT_TRUE(ranges_of(-5, 1).empty());
}

TEST_F(ThreadPool, RangesAreWholeGrains) {
  for (const auto& [begin, end] : ranges_of(1000, 48)) {
    EXPECT_EQ(begin % 48, 0);
    EXPECT_TRUE(end % 48 == 0 || end == 1000);
  }
}

TEST_F(ThreadPool, RangesDoNotDependOnTiming) {
  const Ranges first = ranges_of(100000, 16);
  EXPECT_GT(first.size(), 8u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ranges_of(100000, 16), first);
}

TEST_F(ThreadPool, SmallRangeRunsInlineInOnePiece) {
  const auto caller = std::this_thread::get_id();
  EXPECT_EQ(ranges_of(64, 64), (Ranges{{0, 64}}));
  parallel_for(10, 10, [&](int64_t, int64_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_FALSE(in_parallel_region());
  });
}

TEST_F(ThreadPool, NonPositiveGrainMeansOne) { EXPECT_EQ(ranges_of(3, 0).size(), 3u); }

TEST_F(ThreadPool, AllThreadsTakePart) {
  for (const int threads : {2, 4}) {
    set_num_threads(threads);
    Meeting meeting(threads);
    std::atomic<int> met = 0;
    parallel_for(threads, 1, [&](int64_t, int64_t) { met += meeting.wait() ? 1 : 0; });
    EXPECT_EQ(met.load(), threads);
  }
}

TEST_F(ThreadPool, NestedRegionRunsInline) {
  std::atomic<int> outer = 0;
  std::atomic<int> inner = 0;
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    EXPECT_TRUE(in_parallel_region());
    outer += static_cast<int>(end - begin);
    const auto here = std::this_thread::get_id();
    parallel_for(100, 1, [&](int64_t first, int64_t last) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_EQ(last - first, 100);
      inner += 1;
    });
  });
  EXPECT_FALSE(in_parallel_region());
  EXPECT_EQ(outer.load(), 8);
  EXPECT_GE(inner.load(), 1);
}

TEST_F(ThreadPool, ExceptionReachesTheCaller) {
  for (int round = 0; round < 200; ++round) {
    try {
      parallel_for(1000, 1, [&](int64_t begin, int64_t) {
        throw std::runtime_error("range " + std::to_string(begin));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 6), "range ");
    }
    EXPECT_FALSE(in_parallel_region());
  }
  EXPECT_EQ(ranges_of(8, 8).size(), 1u) << "the pool must stay usable";
}

TEST_F(ThreadPool, ExceptionDropsWhatWasNotBegun) {
  std::atomic<int64_t> done = 0;
  EXPECT_THROW(parallel_for(1 << 20, 1,
                            [&](int64_t begin, int64_t end) {
                              if (begin == 0) throw std::runtime_error("first");
                              std::this_thread::sleep_for(std::chrono::milliseconds(1));
                              done += end - begin;
                            }),
               std::runtime_error);
  EXPECT_LT(done.load(), 1 << 20);
}

TEST_F(ThreadPool, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> total = 0;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        parallel_for(100, 1, [&](int64_t begin, int64_t end) {
          int64_t sum = 0;
          for (int64_t i = begin; i < end; ++i) sum += i;
          total += sum;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), int64_t{6} * 300 * 4950);
}

TEST_F(ThreadPool, SetNumThreadsBetweenRegionsOfOtherThreads) {
  std::atomic<bool> stop = false;
  std::thread caller([&] {
    while (!stop.load()) {
      std::atomic<int64_t> count = 0;
      parallel_for(64, 1, [&](int64_t begin, int64_t end) { count += end - begin; });
      EXPECT_EQ(count.load(), 64);
    }
  });
  for (int round = 0; round < 50; ++round) set_num_threads(1 + round % 4);
  stop = true;
  caller.join();
  set_num_threads(3);
  EXPECT_EQ(get_num_threads(), 3);
}

TEST_F(ThreadPool, BadNumberOfThreadsThrows) {
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(-1), Error);
  EXPECT_THROW(set_num_threads(1 << 20), Error);
  EXPECT_EQ(get_num_threads(), 4);
  EXPECT_THROW(parallel_for(2, 1, [](int64_t, int64_t) { set_num_threads(2); }), Error);
}

TEST_F(ThreadPool, WritesOfTheBodyAreSeenByTheCaller) {
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> values(97, -1);
    parallel_for(97, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] = i + round;
    });
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), 96 * 97 / 2 + 97 * round);
  }
}

TEST_F(ThreadPool, WakesSleepingWorkers) {
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Meeting meeting(4);
    std::atomic<int> met = 0;
    parallel_for(4, 1, [&](int64_t, int64_t) { met += meeting.wait() ? 1 : 0; });
    EXPECT_EQ(met.load(), 4);
  }
}

TEST_F(ThreadPool, ForkedChildGetsItsOwnWorkers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not allow new threads after a fork";
#endif
  ASSERT_GE(ranges_of(64, 1).size(), 2u);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Meeting meeting(4);
    std::atomic<int> met = 0;
    parallel_for(4, 1, [&](int64_t, int64_t) { met += meeting.wait() ? 1 : 0; });
    _exit(met.load() == 4 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_GE(ranges_of(64, 1).size(), 2u) << "the parent's pool must stay usable";
}

TEST(FunctionRef, CallsLambdasFunctorsAndFunctions) {
  int calls = 0;
  const auto lambda = [&](int x) { return calls += x; };
  struct Twice {
    int operator()(int x) const { return 2 * x; }
  };
  const Twice twice;
  const auto apply = [](FunctionRef<int(int)> f, int x) { return f(x); };
  EXPECT_EQ(apply(lambda, 3), 3);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(apply(twice, 4), 8);
  EXPECT_EQ(apply(static_cast<int (*)(int)>([](int x) { return x - 1; }), 4), 3);
}

}  // namespace
}  // namespace tensora
