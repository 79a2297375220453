#pragma once

// What code below dispatch/ needs to know of kernels that were deferred; see dispatch/deferral.h.

#include <string_view>

#include "tensora/core/storage.h"
#include "tensora/core/thread_state.h"

namespace tensora {

namespace detail {
void flush_deferral();
void deferral_meets_leaf(RefCounted& accumulator, bool reads);
void deferral_cannot_repeat(std::string_view reason);
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

/// The program reads the gradient of a leaf, or sets it without reading. `accumulator` is the
/// leaf's AccumulateGrad.
inline void note_leaf(RefCounted& accumulator, bool reads) {
  if (thread_state.deferral) [[unlikely]]
    detail::deferral_meets_leaf(accumulator, reads);
}
/// The program does something beside calling ops that has to happen in each call: a function that
/// does it cannot be replayed.
inline void note_host_work(std::string_view reason) {
  if (thread_state.deferral) [[unlikely]]
    detail::deferral_cannot_repeat(reason);
}

/// How many owners a storage has, not counting the deferred kernels that use it.
inline uint32_t owner_count(const Storage& storage) {
  const uint32_t count = storage.use_count();
  if (thread_state.deferral && detail::deferral_holds(storage)) [[unlikely]]
    return count - 1;
  return count;
}

}  // namespace tensora
