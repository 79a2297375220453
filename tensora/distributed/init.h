#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

struct InitOptions {
  /// How the ranks exchange data: "local" (processes of one host), "mpi", "nccl" (a GPU per rank;
  /// host memory as by auto), or "auto": MPI for what mpirun or srun started, local for other jobs
  /// of one host.
  std::string backend = "auto";
  /// The place of this process; by default what the environment says.
  std::optional<int> rank, ranks;
  std::string master;  // ADDRESS:PORT at which rank 0 listens
  GroupOptions group;
  double join_limit = 120;  // seconds until all ranks must have come
};

/// Joins the job that this process belongs to and makes it the world. Where the environment names
/// none, the world has one rank, and nothing is opened. Called once, before other threads use
/// groups.
std::shared_ptr<ProcessGroup> init(const InitOptions& options = {});
/// Leaves the job; also done when the process ends in order. All ranks that made calls together
/// should have finished them.
void shutdown();

/// This process's number among those of its host, and how many these are.
int local_rank();
int local_ranks();

/// The last calls of this process, as text; empty in a world of one.
std::string recorded_calls(size_t most = 16);

/// The main function of a job: joins it, runs `body`, leaves. An exception of `body` is printed and
/// told to all ranks, whose calls then throw; the result is the exit status, 0 if all went well.
/// After a failure that the MPI library does not survive the process ends here.
int run(const std::function<void(ProcessGroup& world)>& body, const InitOptions& options = {});

/// The exit status of a rank that failed only because another one did.
inline constexpr int kFailedWithAnother = 86;

}  // namespace tensora::distributed
