#pragma once

#include <memory>

#include "tensora/distributed/job.h"

namespace tensora::distributed {

/// Raised with every change of the classes that libtensora_nccl.so shares with this library.
inline constexpr int kNcclAbi = 1;

/// What the first rank's connection to others needs from the job; null in a world of one.
struct NcclJob {
  Control* control = nullptr;
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  double join_limit = 120;
};

/// Makes a group whose calls with tensors on `device` go through NCCL and all others through
/// `host`, a group of the same ranks. Opens libtensora_nccl.so, and with it the CUDA backend and
/// libnccl.so.2.
std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<ProcessGroup> host, Device device,
                                              const NcclJob& job);

}  // namespace tensora::distributed
