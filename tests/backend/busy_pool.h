#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tensora/base/thread_pool.h"

namespace tensora::testing {

/// Keeps the thread pool occupied while it lives, so that the regions of other threads run inline.
class BusyPool {
 public:
  BusyPool() : thread_([this] { parallel_for(2, 1, [this](int64_t, int64_t) { hold(); }); }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_; });
  }
  ~BusyPool() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  BusyPool(const BusyPool&) = delete;
  BusyPool& operator=(const BusyPool&) = delete;

 private:
  void hold() {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, done_ = false;
  std::thread thread_;
};

/// Sets the number of threads for a scope.
class NumThreads {
 public:
  explicit NumThreads(int n) : previous_(get_num_threads()) { set_num_threads(n); }
  ~NumThreads() { set_num_threads(previous_); }
  NumThreads(const NumThreads&) = delete;
  NumThreads& operator=(const NumThreads&) = delete;

 private:
  int previous_;
};

}  // namespace tensora::testing
