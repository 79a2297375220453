#include "tensora/backend/cuda/runtime/shared_memory.h"

#include <set>
#include <utility>

#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {

void allow_shared_memory(int device, const void* kernel, int bytes) {
  thread_local std::set<std::pair<const void*, int>> allowed;
  if (!allowed.emplace(kernel, device).second) return;
  use_device(device);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "cudaFuncSetAttribute");
}

int most_shared_memory(int device) {
  int bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "cudaDeviceGetAttribute");
  return bytes;
}

}  // namespace tensora::cuda
