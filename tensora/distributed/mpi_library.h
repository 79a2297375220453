#pragma once

#include <memory>
#include <string>

#include "tensora/distributed/job.h"

namespace tensora::distributed {

/// Raised with every change of the classes that libtensora_mpi.so shares with this library.
inline constexpr int kMpiAbi = 1;

/// What libtensora_mpi.so offers: `extern "C" int tensora_mpi_abi()` and
/// `extern "C" MpiLibrary* tensora_mpi()`. Compiled against one MPI, whose binary interface differs
/// from that of others.
class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;
  /// Starts MPI, if the program has not; throws unless it allows calls of several threads.
  virtual void start() = 0;
  virtual int rank() = 0;
  virtual int ranks() = 0;
  virtual int local_rank() = 0;
  virtual int local_ranks() = 0;
  /// Rank 0's text, on all ranks.
  virtual std::string broadcast(const std::string& text) = 0;
  virtual std::unique_ptr<Fabric> make_fabric() = 0;
  /// Ends MPI, if `start` began it. Waits for all ranks.
  virtual void finish() = 0;
};

/// Opens the library; throws a sentence that names the package to install where it is not there.
MpiLibrary& open_mpi_library();

}  // namespace tensora::distributed
