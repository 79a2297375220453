#include "tensora/distributed/nccl_library.h"

#include "tensora/base/settings.h"
#include "tensora/core/backend.h"
#include "tensora/distributed/sibling_library.h"

namespace tensora::distributed {

std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<ProcessGroup> host, Device device,
                                              const NcclJob& job) {
  require_device(device);  // loads the CUDA backend, of which the library below uses the streams
  const SiblingLibrary library("libtensora_nccl.so", path_setting("TENSORA_NCCL_LIBRARY"),
                               "the backend nccl needs libtensora_nccl.so, which is built with the "
                               "CUDA backend");
  const int abi = reinterpret_cast<int (*)()>(library.function("tensora_nccl_abi"))();
  check(abi == kNcclAbi, "libtensora_nccl.so was built for another version of ",
        "libtensora_distributed.so (", abi, ", not ", kNcclAbi, ")");
  using Make = ProcessGroup* (*)(std::shared_ptr<ProcessGroup>*, Device, const NcclJob*);
  const auto make = reinterpret_cast<Make>(library.function("tensora_nccl_group"));
  return std::shared_ptr<ProcessGroup>(make(&host, device, &job));
}

}  // namespace tensora::distributed
