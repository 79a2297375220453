#pragma once

#include <cstddef>

namespace tensora {

/// Memory for small, short-lived objects (tensor headers, storages, graph nodes): a free list per
/// thread and size class, so that an allocation costs a few nanoseconds. A block may be
/// freed by a thread other than the one that allocated it. `bytes` must be the same in both calls.
void* pool_allocate(std::size_t bytes);
void pool_free(void* block, std::size_t bytes) noexcept;

/// Gives a class the pool as its allocator: `struct Thing : Pooled { … };`
struct Pooled {
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) { pool_free(block, bytes); }
};

}  // namespace tensora
