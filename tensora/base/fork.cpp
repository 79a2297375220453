#include "tensora/base/fork.h"

#include <pthread.h>

#include <array>
#include <cstddef>
#include <mutex>

#include "tensora/base/check.h"

namespace tensora {
namespace {

// Note [Making under fork]
// One lock for the making of all values: making one may make others, in any order. A thread that
// has it takes it again by counting. It is the first lock that a fork acquires, because makers
// register and acquire other locks while they have it.
constinit Mutex making;
thread_local constinit int making_depth = 0;

void begin_making() {
  if (making_depth++ == 0) making.lock();
}
void end_making() {
  if (--making_depth == 0) making.unlock();
}

struct HeldLocks {
  Mutex own;
  std::array<Mutex*, 16> list{};
  size_t count = 0;
};
constinit HeldLocks held;

void before_fork() {
  begin_making();
  held.own.lock();
  for (size_t i = held.count; i-- > 0;) held.list[i]->lock();
}

void after_fork() {
  for (size_t i = 0; i < held.count; ++i) held.list[i]->unlock();
  held.own.unlock();
  end_making();
}

// When the library is loaded: a fork that began earlier would not wait.
const int registered = pthread_atfork(before_fork, after_fork, after_fork);

}  // namespace

MakingScope::MakingScope() { begin_making(); }
MakingScope::~MakingScope() { end_making(); }

void hold_over_fork(Mutex& mutex) {
  const std::lock_guard lock(held.own);
  ensure(held.count < held.list.size(), "hold_over_fork: too many locks");
  ensure(registered == 0, "hold_over_fork: pthread_atfork failed");
  held.list[held.count++] = &mutex;
}

}  // namespace tensora
