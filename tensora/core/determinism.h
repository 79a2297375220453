#pragma once

#include "tensora/core/thread_state.h"

namespace tensora {

/// Whether ops must give the same bits for the same inputs on the same device, even where that is
/// slower. Off by default. An op that cannot throws. Kernels ask on the thread that called the op,
/// before they split their work; backward runs on the thread that called it, in that thread's mode.
///
/// On the CPU, with one build, processor and set of libraries, every op does so in either mode: the
/// order of a sum depends on the shape, not on the number of threads or on timing. The one
/// exception is the f32 and f64 products that OpenBLAS or oneDNN compute: they are split into as
/// many parts as there are threads, so their bits may change with set_num_threads. In deterministic
/// mode they are always split as for eight threads.
bool is_deterministic();
/// For the whole process, except threads within a DeterministicScope.
void set_deterministic(bool deterministic);

/// Sets it for a scope of the current thread.
struct DeterministicScope : OverrideScope<&Modes::deterministic> {
  using OverrideScope::OverrideScope;
};

}  // namespace tensora
