#pragma once

#include <atomic>

#include "tensora/base/mutex.h"

namespace tensora {

/// Keeps a lock that lives as long as the process usable in a forked child, where a thread that
/// held it would no longer exist: fork() acquires the lock first and releases it in both processes.
/// Locks are acquired in the reverse order of registration, so a lock that is taken while another
/// one is held must be registered before that other one.
void hold_over_fork(Mutex& mutex);

/// While one exists, other threads that make values, and fork(), wait.
class MakingScope {
 public:
  MakingScope();
  ~MakingScope();
  MakingScope(const MakingScope&) = delete;
  MakingScope& operator=(const MakingScope&) = delete;
};

/// A value that is made on first use, as a function-local static is. While a static is being made,
/// a fork leaves a child that waits forever for a thread that it does not have; fork() waits for
/// the making of these. Declared `static constinit`, never destroyed. See Note [Making under fork].
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  /// Made by the constructor that takes `arguments`, which may use other values made once.
  template <class... Arguments>
  T& get(const Arguments&... arguments) {
    if (T* const made = value_.load(std::memory_order_acquire)) [[likely]]
      return *made;
    const MakingScope scope;
    if (!value_.load(std::memory_order_relaxed))
      value_.store(new T(arguments...), std::memory_order_release);
    return *value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<T*> value_ = nullptr;
};

}  // namespace tensora
