#pragma once

#include <pthread.h>

namespace tensora {

/// Like std::mutex, without the clocks and error codes that its header brings into every file that
/// includes ours. Works with std::lock_guard and the like.
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
