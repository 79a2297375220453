#include "tensora/serve/worker_pool.h"

#include <algorithm>
#include <system_error>

#include "tensora/base/check.h"
#include "tensora/serve/own_thread.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostSubstitutes = 64;

thread_local WorkerPool* pool_of_thread = nullptr;

}  // namespace

WorkerPool::WorkerPool(int threads, size_t most_waiting)
    : present_(static_cast<size_t>(threads)), most_waiting_(most_waiting) {
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
  for (std::thread& thread : threads_) thread.join();  // no more are made
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

WorkerPool::Substitute::Substitute() : pool_(pool_of_thread) {
  if (!pool_) return;
  WorkerPool& pool = *pool_;
  const std::lock_guard lock(pool.mutex_);
  ++pool.absent_;
  pool.changed_.notify_one();  // one that was made before, perhaps
  const size_t wanted = pool.present_ + std::min(pool.absent_, kMostSubstitutes);
  if (pool.threads_.size() >= wanted || pool.is_ending_) return;
  try {
    pool.threads_.emplace_back([&pool] { pool.work(); });
  } catch (const std::system_error&) {
    // The system has no more threads: the others do what they can.
  }
}

WorkerPool::Substitute::~Substitute() {
  if (!pool_) return;
  const std::lock_guard lock(pool_->mutex_);
  --pool_->absent_;
}

bool WorkerPool::may_take() const { return !jobs_.empty() && running_ < present_ + absent_; }

void WorkerPool::work() {
  begin_own_thread("serve-worker");
  pool_of_thread = this;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || may_take(); });
    if (is_ending_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++running_;
    lock.unlock();
    job();
    job = nullptr;  // what it holds goes without the lock
    lock.lock();
    --running_;
  }
}

}  // namespace tensora::serve
