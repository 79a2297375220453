#include "tensora/jit/function_lock.h"

#include <array>

#include "tensora/base/fork.h"
#include "tensora/core/backend.h"

namespace tensora::jit {
namespace {

struct Locks {
  std::array<Mutex, 2> list;

  Locks() {
    allocator(DeviceType::cpu);  // whose locks are taken while one of these is held
    for (Mutex& lock : list) hold_over_fork(lock);
  }
};
constinit MadeOnce<Locks> locks;

}  // namespace

Mutex& function_lock(uintptr_t owner) {
  auto& list = locks.get().list;
  return list[(owner >> 6) % list.size()];
}

}  // namespace tensora::jit
