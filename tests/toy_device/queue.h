#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace tensora::toy {

/// The device's side of the toy: a thread that runs what is pushed, one after the other. As on a
/// GPU, an op returns before its kernel has run.
class Queue {
 public:
  Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void push(std::function<void()> work);
  /// Returns when everything pushed so far has run.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable pushed_, idle_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
};

/// The queue of device number `index`.
Queue& queue(int index);

}  // namespace tensora::toy
