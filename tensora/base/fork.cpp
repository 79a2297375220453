#include "tensora/base/fork.h"

#include <pthread.h>

#include <array>
#include <cstddef>
#include <mutex>

#include "tensora/base/check.h"

namespace tensora {
namespace {

struct HeldLocks {
  Mutex own;
  std::array<Mutex*, 16> list{};
  size_t count = 0;
};
constinit HeldLocks held;

void before_fork() {
  held.own.lock();
  for (size_t i = held.count; i-- > 0;) held.list[i]->lock();
}

void after_fork() {
  for (size_t i = 0; i < held.count; ++i) held.list[i]->unlock();
  held.own.unlock();
}

}  // namespace

void hold_over_fork(Mutex& mutex) {
  const std::lock_guard lock(held.own);
  ensure(held.count < held.list.size(), "hold_over_fork: too many locks");
  if (held.count == 0) pthread_atfork(before_fork, after_fork, after_fork);
  held.list[held.count++] = &mutex;
}

}  // namespace tensora
