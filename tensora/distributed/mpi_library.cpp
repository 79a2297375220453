#include "tensora/distributed/mpi_library.h"

#include "tensora/base/settings.h"
#include "tensora/distributed/sibling_library.h"

namespace tensora::distributed {

MpiLibrary& open_mpi_library() {
  const SiblingLibrary library(
      "libtensora_mpi.so", path_setting("TENSORA_MPI_LIBRARY"),
      "the backend mpi needs libtensora_mpi.so, which is built where CMake finds MPI (Debian and "
      "Ubuntu: apt install libopenmpi-dev openmpi-bin, then build again)");
  const int abi = reinterpret_cast<int (*)()>(library.function("tensora_mpi_abi"))();
  check(abi == kMpiAbi, "libtensora_mpi.so was built for another version of ",
        "libtensora_distributed.so (", abi, ", not ", kMpiAbi, ")");
  return *reinterpret_cast<MpiLibrary* (*)()>(library.function("tensora_mpi"))();
}

}  // namespace tensora::distributed
