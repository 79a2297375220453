#pragma once

// See Note [Kernels that begin early] in runtime/runtime.h.

#include <set>
#include <utility>

#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {

/// For the kernels of a language model's step: what the products of quantized weights need, or
/// attention beside a row of activations.
inline constexpr int kStepSharedPercent = 72;

/// Asks for a multiprocessor whose memory is divided into `percent` shared memory, the rest cache.
/// A kernel that begins early finds the division that the one before it wanted, and loads of one
/// that needs the cache take twice the time in what a kernel without a wish leaves of it.
inline void prefer_shared_memory(int device, const void* kernel, int percent) {
  thread_local std::set<std::pair<const void*, int>> known;
  if (!known.emplace(kernel, device).second) return;
  use_device(device);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
             "cudaFuncSetAttribute");
}

/// The next kernel may begin; what this one wrote becomes visible to it when this one has ended.
__device__ inline void begin_next() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the kernels before this one have ended.
__device__ inline void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace tensora::cuda
