#pragma once

#include "tensora/core/thread_state.h"

namespace tensora {

/// Whether ops must give the same bits for the same inputs on the same device, even where that is
/// slower. Off at first. An op that cannot, throws. Kernels ask on the thread that called the op,
/// before they split their work; backward runs on the thread that called it, in that thread's mode.
bool is_deterministic();
/// For the whole process, except threads within a DeterministicScope.
void set_deterministic(bool deterministic);

/// Sets it for a scope of the current thread.
struct DeterministicScope : OverrideScope<&Modes::deterministic> {
  using OverrideScope::OverrideScope;
};

}  // namespace tensora
