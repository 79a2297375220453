#pragma once

#include <pthread.h>

#include <utility>

#include "tensora/base/check.h"
#include "tensora/base/fork.h"

namespace tensora {

/// A thread's own T, made on first use and usable while the destructors of static and thread_local
/// objects run. Declared `thread_local constinit`. See Note [Scratch that outlives destructors].
template <class T>
class KeptByThread {
 public:
  constexpr KeptByThread() = default;
  KeptByThread(const KeptByThread&) = delete;
  KeptByThread& operator=(const KeptByThread&) = delete;

  T& get() {
    if (!value_) [[unlikely]]
      make();
    return *value_;
  }

 private:
  struct Key {
    pthread_key_t key = 0;
    Key() { ensure(pthread_key_create(&key, release) == 0, "KeptByThread: no key is left"); }
  };

  // Again after a release: destructors of other keys may use it, too.
  void make() {
    static constinit MadeOnce<Key> key;
    pthread_setspecific(key.get().key, this);
    value_ = new T();
  }
  static void release(void* kept) {
    T*& value = static_cast<KeptByThread*>(kept)->value_;
    delete std::exchange(value, nullptr);
  }

  T* value_ = nullptr;
};

}  // namespace tensora
