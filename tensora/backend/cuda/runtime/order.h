#pragma once

#include <cuda_runtime_api.h>

namespace tensora::cuda {

struct DeviceStream {
  int device;
  cudaStream_t stream;
};

/// Work queued later on `second` starts after the work queued so far on `first`. The host does not
/// wait.
void order_streams(DeviceStream first, DeviceStream second);

}  // namespace tensora::cuda
