#pragma once

#include "tensora/base/mutex.h"

namespace tensora {

/// Keeps a lock that lives as long as the process usable in a forked child, where a thread that
/// held it would no longer exist: fork() acquires the lock first and releases it in both processes.
/// Locks are acquired in the reverse order of registration, so a lock that is taken while another
/// one is held must be registered before that other one.
void hold_over_fork(Mutex& mutex);

}  // namespace tensora
