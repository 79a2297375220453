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

  /// Where a job waits for seconds or minutes, as for a model that is being loaded, the jobs behind
  /// it need not: while one of these exists, another thread takes the place of the one that made
  /// it. There are at most 64 such threads. They are kept for the next time, but the pool never
  /// runs more jobs than it has threads, those that wait not counted. Does nothing on a thread that
  /// belongs to no pool.
  class Substitute {
   public:
    Substitute();
    ~Substitute();
    Substitute(const Substitute&) = delete;
    Substitute& operator=(const Substitute&) = delete;

   private:
    WorkerPool* const pool_;
  };

 private:
  void work();
  bool may_take() const;

  const size_t present_;  // threads that are to be there for jobs
  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_ending_ = false;
  size_t running_ = 0;  // jobs
  size_t absent_ = 0;   // of these, wait for something else
  std::vector<std::thread> threads_;
};

}  // namespace tensora::serve
