#include "tensora/core/backend.h"

#include <mutex>
#include <set>

#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/allocator.h"
#include "tensora/backend/cuda/memory/pinned.h"
#include "tensora/backend/cuda/memory/red_zones.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/fault.h"
#include "tensora/backend/cuda/runtime/order.h"
#include "tensora/backend/cuda/runtime/queues.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"
#include "tensora/base/check.h"
#include "tensora/base/settings.h"

namespace tensora {
// Defined by dispatch/nvtx.cu, which is part of this library.
void start_nvtx_if_asked();
}  // namespace tensora

namespace tensora::jit {
// Defined by the sources of jit/ that are part of this library: tile_cuda.cu, block_cuda.cu, ….
void register_tile_cuda();
void register_block_cuda();
}  // namespace tensora::jit

namespace tensora::cuda {

// Generated from the names of the rooms' files.
void register_cuda_kernels();

namespace {

class CudaBackend final : public Backend {
 public:
  int device_count() override { return cuda::device_count(); }
  Allocator& allocator(Device device) override { return caching_allocator(device.index); }

  void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                  size_t bytes) override {
    if (bytes == 0) return;
    if (to_device.is_cpu()) {
      refuse_capture("a copy to the host (item, cpu, nonzero, a printed tensor)");
      copy_to_host(from_device.index, to, from, bytes);
      throw_noted_fault(from_device.index);
      return;
    }
    if (from_device.is_cpu()) {
      refuse_capture("a copy from the host");
      return copy_to_device(to_device.index, to, from, bytes);
    }
    if (to_device == from_device) {
      use_device(to_device.index);
      check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                 current_stream(to_device.index)),
                 "the copy on the device");
      after_launch("copy", to_device.index);
      return;
    }
    copy_between(to, to_device.index, from, from_device.index, bytes);
  }

  void synchronize(Device device) override {
    refuse_capture("synchronize");
    use_device(device.index);
    check_cuda(wait_for_device(), "cudaDeviceSynchronize");
    throw_noted_fault(device.index);
  }

 private:
  // Between some devices memory can be reached directly, once that is asked for; without, the
  // driver copies through the host.
  static void allow_direct_copies(int from_device, int to_device) {
    static std::mutex mutex;
    static auto* asked = new std::set<std::pair<int, int>>;
    std::lock_guard lock(mutex);
    if (!asked->emplace(from_device, to_device).second) return;
    int possible = 0;
    check_cuda(cudaDeviceCanAccessPeer(&possible, from_device, to_device),
               "cudaDeviceCanAccessPeer");
    if (!possible) return;
    const DeviceGuard guard(from_device);
    const cudaError_t status = cudaDeviceEnablePeerAccess(to_device, 0);
    cudaGetLastError();  // another library may have asked before
    if (status != cudaErrorPeerAccessAlreadyEnabled)
      check_cuda(status, "cudaDeviceEnablePeerAccess");
  }

  // Queued on the source's stream between two events, so that it is ordered on both devices.
  static void copy_between(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
    allow_direct_copies(from_device, to_device);
    const DeviceStream source{from_device, current_stream(from_device)};
    const DeviceStream target{to_device, current_stream(to_device)};
    order_streams(target, source);
    {
      const DeviceGuard guard(from_device);
      check_cuda(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, source.stream),
                 "the copy between devices");
      note_launch("copy");
    }
    order_streams(source, target);
  }
};

}  // namespace
}  // namespace tensora::cuda

// What tensora/core/backend.cpp looks up.
extern "C" int tensora_cuda_abi() { return tensora::kBackendAbi; }

/// Throws Error when the driver or the
/// device is missing.
extern "C" tensora::Backend* tensora_cuda_backend() {
  tensora::cuda::device_count();
  if (tensora::switch_setting("TENSORA_CUDA_CHECKED", false)) tensora::cuda::set_checked(true);
  if (tensora::switch_setting("TENSORA_CUDA_RED_ZONES", false)) tensora::cuda::set_red_zones(true);
  if (tensora::switch_setting("TENSORA_CUDA_TUNE_MATMUL", false))
    tensora::cuda::set_matmul_tuning(true);
  static auto* instance = [] {
    tensora::cuda::register_cuda_kernels();
    tensora::jit::register_tile_cuda();
    tensora::jit::register_block_cuda();
    tensora::cuda::register_queues();
    tensora::cuda::register_pinned_memory();
    tensora::start_nvtx_if_asked();
    return new tensora::cuda::CudaBackend;
  }();
  return instance;
}
