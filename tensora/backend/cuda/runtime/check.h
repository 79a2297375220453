#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

namespace tensora::cuda {

/// Remembers that an op was launched. Kernels fail after the call that queued them returned, so an
/// error message lists the last ops of the whole process. `op` must live forever, as op names do.
void note_launch(std::string_view op) noexcept;

/// The last ops launched: "add, mul, sum", the latest last.
std::string recent_launches();

[[noreturn]] void fail_cuda(cudaError_t status, std::string_view call);

/// Throws an Error that names the call, CUDA's reason and the last ops launched.
inline void check_cuda(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) [[unlikely]]
    fail_cuda(status, call);
}

}  // namespace tensora::cuda
