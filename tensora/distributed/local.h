#pragma once

#include "tensora/distributed/job.h"

namespace tensora::distributed {

/// Ranks of one host, which share memory that the system gives them: the backend `local`. Needs no
/// library. `token`: of the job; `word` makes the memory's names unique.
std::unique_ptr<Fabric> make_local_fabric(Control& control, std::string_view token,
                                          std::string_view word, double seconds);

/// Removes the memory that ranks of a job left in /dev/shm because they were killed while they made
/// it. For its launcher, when the ranks are gone.
void remove_shared_memory(std::string_view token);

/// Throws unless /dev/shm has that much room, saying how to get more.
void check_shared_memory(size_t bytes);

}  // namespace tensora::distributed
