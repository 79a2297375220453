#pragma once

// Devices, the current stream of a thread, and how kernels are launched on it.

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "tensora/backend/cuda/runtime/check.h"
#include "tensora/core/device.h"

namespace tensora::cuda {

/// What is asked about a device more than once.
struct DeviceInfo {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  size_t total_bytes = 0;
  size_t l2_bytes = 0;
};

/// Finds driver and devices at the first call. Throws an Error that says which of them is missing,
/// or that the driver is too old; throws again when asked again.
int device_count();
const DeviceInfo& device_info(int index);
/// Whether a device runs the kernels of sources called *_sm90a.cu, which use instructions that only
/// Hopper has. See Note [One PTX, several architectures] in cmake/cuda.cmake.
inline bool runs_sm90a(int index) {
  return device_info(index).major == 9 && device_info(index).minor == 0;
}

/// Makes a device the thread's current one for the CUDA runtime.
void use_device(int index);

/// Sets another device for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
};

/// The stream on which this thread queues its work for the device.
cudaStream_t current_stream(int device);
void set_current_stream(int device, cudaStream_t stream);

/// Note [Kernels that begin early]
/// Between two kernels a GPU idles for a microsecond or more, which is long where kernels take two.
/// A kernel launched `early` may begin as soon as every block of the previous one has called
/// begin_next() (loops/early.cuh) or ended; it must call wait_for_previous() before it reads or
/// writes what other kernels use. Weights may be requested before that: so launches are early only
/// within an EarlyLaunches scope, whose author knows that no kernel in it, or just before, writes
/// weights; and only on devices of compute capability 9.0 or more. Sources of such kernels are
/// called *_early.cu.
class EarlyLaunches {
 public:
  explicit EarlyLaunches(bool on = true);
  ~EarlyLaunches();
  EarlyLaunches(const EarlyLaunches&) = delete;
  EarlyLaunches& operator=(const EarlyLaunches&) = delete;

 private:
  bool previous_;
};

/// Queues a kernel on the thread's current stream of `device`; `args` holds the address of each
/// parameter. Kernels without blocks are not launched.
struct Launch {
  std::string_view op;
  int device = 0;
  unsigned shared_bytes = 0;
  bool early = false;  // if the scope allows it

  void run(const void* kernel, dim3 grid, dim3 block, void** args) const;

  template <class... Params, class... Args>
  void operator()(void (*kernel)(Params...), dim3 grid, dim3 block, Args... args) const {
    static_assert(sizeof...(Params) == sizeof...(Args));
    launch_as<Params...>(reinterpret_cast<const void*>(kernel), grid, block,
                         static_cast<Params>(args)...);
  }

 private:
  template <class... Params>
  void launch_as(const void* kernel, dim3 grid, dim3 block, Params... params) const {
    void* addresses[] = {const_cast<void*>(static_cast<const void*>(&params))...};
    run(kernel, grid, block, addresses);
  }
};

}  // namespace tensora::cuda
