#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tensora/distributed/control.h"

namespace tensora::distributed {

/// Which rank of which job this process is.
struct JobPlace {
  int rank = 0, ranks = 1, local_rank = 0, local_ranks = 1;
  bool local_known = false;     // whether the last two were given
  bool started_by_mpi = false;  // by mpirun, or by srun with a PMI
  std::optional<MeetingPoint> meeting_point;
  std::string source = "nothing";  // who said so
};

/// What a caller knows about its place; it has precedence over the environment.
struct GivenPlace {
  std::optional<int> rank, ranks;
  std::string master;  // ADDRESS:PORT of rank 0
};

/// Reads the variables of `tensora launch` (TENSORA_RANK, …), torchrun, Open MPI, PMI and Slurm.
/// The first that is there counts. Throws where one is incomplete or two contradict each other, and
/// lists what was seen. `variable` is for tests.
JobPlace read_place(const GivenPlace& given,
                    const std::function<std::string(const char*)>& variable);
/// The same with the process's environment.
JobPlace read_place(const GivenPlace& given = {});

/// The process that launched this rank, directly or through others such as a shell; 0 if none of
/// its ancestors says so. It may be gone later.
int launcher_process();

}  // namespace tensora::distributed
