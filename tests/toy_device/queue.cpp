#include "tests/toy_device/queue.h"

#include <array>
#include <thread>

#include "tensora/base/check.h"
#include "tests/toy_device/memory.h"

namespace tensora::toy {

// The thread waits for work until the process ends.
Queue::Queue() {
  std::thread([this] { run(); }).detach();
}

void Queue::push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  pushed_.notify_one();
}

void Queue::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return work_.empty() && !busy_; });
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    pushed_.wait(lock, [&] { return !work_.empty(); });
    busy_ = true;
    const std::function<void()> next = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    next();
    lock.lock();
    busy_ = false;
    if (work_.empty()) idle_.notify_all();
  }
}

Queue& queue(int index) {
  static const auto* queues = new std::array<Queue*, kDeviceCount>{new Queue, new Queue};
  check(index >= 0 && index < kDeviceCount, "toy: there is no device ", index);
  return *(*queues)[static_cast<size_t>(index)];
}

}  // namespace tensora::toy
