#pragma once

#include <cstdint>

#include "tensora/base/mutex.h"

namespace tensora::jit {

/// The lock of what a compiled function keeps, by the address of what is locked. Functions share a
/// few locks that live as long as the process, because those can be kept usable in a forked child.
/// No user's code may run, and no tensor be let go of, while one is held.
Mutex& function_lock(uintptr_t owner);

}  // namespace tensora::jit
