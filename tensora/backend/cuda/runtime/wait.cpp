#include "tensora/backend/cuda/runtime/wait.h"

#include <atomic>

#include "tensora/backend/cuda/runtime/stream.h"

namespace tensora::cuda {
namespace {

std::atomic<uint64_t> waits{0};

}  // namespace

cudaError_t wait_for_stream(cudaStream_t stream) noexcept {
  count_wait();
  return cudaStreamSynchronize(stream);
}

cudaError_t wait_for_event(cudaEvent_t event) noexcept {
  count_wait();
  return cudaEventSynchronize(event);
}

cudaError_t wait_for_device() noexcept {
  count_wait();
  return cudaDeviceSynchronize();
}

void count_wait() noexcept { waits.fetch_add(1, std::memory_order_relaxed); }

uint64_t wait_count() noexcept { return waits.load(std::memory_order_relaxed); }

}  // namespace tensora::cuda
