#include "tensora/core/backend.h"

#include "tensora/backend/cuda/allocator.h"
#include "tensora/backend/cuda/fault.h"
#include "tensora/backend/cuda/pinned.h"
#include "tensora/backend/cuda/runtime.h"
#include "tensora/base/check.h"

namespace tensora::jit {
// Defined by jit/emit_cuda.cu, which is part of this library.
void register_emit_cuda();
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
      copy_to_host(from_device.index, to, from, bytes);
      throw_noted_fault(from_device.index);
      return;
    }
    if (from_device.is_cpu()) return copy_to_device(to_device.index, to, from, bytes);
    if (to_device == from_device) {
      use_device(to_device.index);
      check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                 current_stream(to_device.index)),
                 "the copy on the device");
      return;
    }
    copy_between(to, to_device.index, from, from_device.index, bytes);
  }

  void synchronize(Device device) override {
    use_device(device.index);
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    throw_noted_fault(device.index);
  }

 private:
  // Queued on the source's stream between two events, so that it is ordered on both devices.
  static void copy_between(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
    const cudaStream_t source = current_stream(from_device), target = current_stream(to_device);
    order(target, to_device, source, from_device);
    {
      const DeviceGuard guard(from_device);
      check_cuda(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, source),
                 "the copy between devices");
    }
    order(source, from_device, target, to_device);
  }

  /// Work queued later on `second` starts after the work queued so far on `first`.
  static void order(cudaStream_t first, int first_device, cudaStream_t second, int second_device) {
    cudaEvent_t event = nullptr;
    {
      const DeviceGuard guard(first_device);
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
      check_cuda(cudaEventRecord(event, first), "cudaEventRecord");
    }
    const DeviceGuard guard(second_device);
    check_cuda(cudaStreamWaitEvent(second, event, 0), "cudaStreamWaitEvent");
    cudaEventDestroy(event);  // takes effect when the event was reached
  }
};

}  // namespace
}  // namespace tensora::cuda

/// The entry point that tensora/core/backend.cpp looks up. Throws Error when the driver or the
/// device is missing.
extern "C" tensora::Backend* tensora_cuda_backend() {
  tensora::cuda::device_count();
  static auto* instance = [] {
    tensora::cuda::register_cuda_kernels();
    tensora::jit::register_emit_cuda();
    return new tensora::cuda::CudaBackend;
  }();
  return instance;
}
