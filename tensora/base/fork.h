#pragma once

#include "tensora/base/mutex.h"

namespace tensora {

/// Keeps a lock that lives as long as the process usable in a forked child, where a thread that
/// held it would be lost: fork() waits for it and releases it on both sides. The locks are taken in
/// the order opposite to that of these calls, so a lock that is taken while another one is held
/// comes before that other one.
void hold_over_fork(Mutex& mutex);

}  // namespace tensora
