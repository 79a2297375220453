#pragma once

// What code below dispatch/ needs to know of kernels that were deferred; see dispatch/deferral.h.

#include "tensora/core/storage.h"
#include "tensora/core/thread_state.h"

namespace tensora {

namespace detail {
void flush_deferral();
bool deferral_holds(const Storage& storage);
/// Gives the storage of a divided tensor memory; see dispatch/divided.h.
void collect_divided(Storage& storage);
}  // namespace detail

/// Runs the kernels that this thread has deferred. To be called before anything that depends on the
/// order of work on a device: events, changes of the stream, settings that kernels read.
inline void flush_deferred() {
  if (thread_state.deferral) [[unlikely]]
    detail::flush_deferral();
}

/// How many owners a storage has, not counting the deferred kernels that use it.
inline uint32_t owner_count(const Storage& storage) {
  const uint32_t count = storage.use_count();
  if (thread_state.deferral && detail::deferral_holds(storage)) [[unlikely]]
    return count - 1;
  return count;
}

}  // namespace tensora
