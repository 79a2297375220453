#pragma once

#include "tensora/distributed/job.h"

namespace tensora::distributed {

/// Ranks of one host, which share memory that the system gives them: the backend `local`. Needs no
/// library. `token` makes the memory's names unique.
std::unique_ptr<Fabric> make_local_fabric(Control& control, std::string token, double seconds);

/// Throws unless /dev/shm has that much room, saying how to get more.
void check_shared_memory(size_t bytes);

}  // namespace tensora::distributed
