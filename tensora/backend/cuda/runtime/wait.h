#pragma once

// The only calls that make the host wait for the device.

#include <cuda_runtime_api.h>

namespace tensora::cuda {

// Note [Counted waits]
// A program that keeps the device busy queues work ahead of it; one wait in a training step, even
// an accidental one, stalls that. So every wait goes through these functions, which count it
// (wait_count in stream.h), and a test checks that a training step has none. Calls that wait as a
// side effect (cudaMalloc, cudaFree, cudaHostAlloc) are counted beside them. The lint `banned`
// keeps the calls themselves in wait.cpp.

cudaError_t wait_for_stream(cudaStream_t stream) noexcept;
cudaError_t wait_for_event(cudaEvent_t event) noexcept;
/// The current device of the CUDA runtime.
cudaError_t wait_for_device() noexcept;
/// Counts a call that waits as a side effect.
void count_wait() noexcept;

}  // namespace tensora::cuda
