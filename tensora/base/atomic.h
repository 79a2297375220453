#pragma once

namespace tensora {

/// Like std::atomic, in the few orders that our headers need, without what its header brings into
/// every file that includes ours: waiting, system calls, threads.
template <class T>
class Atomic {
 public:
  constexpr Atomic(T value = {}) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load_relaxed() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  T load_acquire() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  void store_relaxed(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }
  void store_release(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }
  /// They return the value before.
  T add_relaxed(T difference) { return __atomic_fetch_add(&value_, difference, __ATOMIC_RELAXED); }
  T subtract(T difference) { return __atomic_fetch_sub(&value_, difference, __ATOMIC_ACQ_REL); }

 private:
  T value_;
};

}  // namespace tensora
