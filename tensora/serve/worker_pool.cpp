#include "tensora/serve/worker_pool.h"

#include "tensora/base/check.h"
#include "tensora/serve/own_thread.h"

namespace tensora::serve {

WorkerPool::WorkerPool(int threads, size_t most_waiting) : most_waiting_(most_waiting) {
  check(threads >= 1 && threads <= 256, "serve: expected 1 to 256 worker threads, got ", threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::add(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= most_waiting_ || is_ending_) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void WorkerPool::work() {
  begin_own_thread("serve-worker");
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ending_ || !jobs_.empty(); });
      if (is_ending_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace tensora::serve
