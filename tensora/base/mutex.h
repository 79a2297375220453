#pragma once

#include <pthread.h>

namespace tensora {

/// What std::mutex is, without the clocks and error codes that its header drags into every file
/// that includes ours. Locked by std::lock_guard and its like.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() { pthread_mutex_lock(&handle_); }
  void unlock() { pthread_mutex_unlock(&handle_); }

 private:
  pthread_mutex_t handle_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace tensora
