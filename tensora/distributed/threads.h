#pragma once

#include <functional>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

/// Runs `body` on `ranks` threads of this process, each of which is a rank: it has a world of that
/// size, a default generator that starts where the caller's is, and the caller's modes. Returns
/// when all have returned. If a rank throws, the calls of all others throw a RankFailedError that
/// names it, and its own exception reaches the caller. A rank that returns while others wait for it
/// is an error of those. On a device with queues each rank works on the queue that its body makes
/// current.
void run_ranks(int ranks, const std::function<void(ProcessGroup& world)>& body,
               const GroupOptions& options = {});

}  // namespace tensora::distributed
