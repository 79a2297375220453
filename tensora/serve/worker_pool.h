#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tensora::serve {

/// A few threads for what would hold up the I/O threads: parsing, templates, tokenizing, compiling
/// schemas. Jobs must not throw.
class WorkerPool {
 public:
  WorkerPool(int threads, size_t most_waiting);
  /// Waits for the jobs that run; those that wait are dropped.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Returns false if too many jobs wait.
  bool add(std::function<void()> job);

 private:
  void work();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tensora::serve
