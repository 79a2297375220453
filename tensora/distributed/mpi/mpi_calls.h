#pragma once

#include <mpi.h>

#include "tensora/distributed/transport.h"

namespace tensora::distributed {

/// Throws with MPI's own text unless the call succeeded.
void check_mpi(int code, const char* call);

/// Waits for a request, looking after the ranks meanwhile. A request that is given up stays with
/// MPI: it cannot be cancelled.
void finish_request(MPI_Request& request, Watch& watch, const std::vector<int>& partners);

/// The collectives of ranks on several hosts, and messages between two of them, on a communicator
/// each.
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm collectives, MPI_Comm messages,
                                              std::shared_ptr<Watch> watch);

}  // namespace tensora::distributed
