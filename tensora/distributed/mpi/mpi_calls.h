#pragma once

#include <mpi.h>

#include <mutex>

#include "tensora/distributed/transport.h"

namespace tensora::distributed {

/// Throws with MPI's own text unless the call succeeded.
void check_mpi(int code, const char* call);

/// Calls a function of MPI that does not wait, such as MPI_Isend, while no other thread is in one.
/// Throws unless it succeeds. The groups of a process call MPI on a thread each, and the libraries'
/// own locks for that have had errors in many versions; a lock of ours costs less than a call.
template <class Call>
void call_mpi(const char* name, const Call& call) {
  static std::mutex one_thread;
  const std::lock_guard lock(one_thread);
  check_mpi(call(), name);
}

/// Waits for a request, looking after the ranks meanwhile. A request that is given up stays with
/// MPI: it cannot be cancelled.
void finish_request(MPI_Request& request, Watch& watch, const std::vector<int>& partners);

/// The collectives of ranks on several hosts, and messages between two of them, on a communicator
/// each.
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm collectives, MPI_Comm messages,
                                              std::shared_ptr<Watch> watch);

}  // namespace tensora::distributed
