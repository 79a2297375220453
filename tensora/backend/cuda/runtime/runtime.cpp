#include "tensora/backend/cuda/runtime/runtime.h"

#include <array>
#include <mutex>
#include <vector>

#include "tensora/backend/cuda/runtime/fork.h"
#include "tensora/base/check.h"
#include "tensora/core/deferred.h"

namespace tensora::cuda {
namespace {

constexpr int kMaxDevices = 64;

std::string version_text(int version) { return concat(version / 1000, ".", version % 1000 / 10); }

// Checks for everything that can be missing, in order.
int find_devices() {
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(driver != 0, "cuda: no NVIDIA driver was found on this machine (libcuda.so.1 is missing)");
  check(driver / 1000 >= CUDART_VERSION / 1000,
        "cuda: the NVIDIA driver is too old: it supports CUDA ", version_text(driver),
        ", this library needs ", CUDART_VERSION / 1000, ".0 or newer");
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    cudaGetLastError();
    fail(
        "cuda: the NVIDIA driver is there, but no device was found (is CUDA_VISIBLE_DEVICES set?)");
  }
  check_cuda(status, "cudaGetDeviceCount");
  watch_forks();
  return std::min(count, kMaxDevices);
}

DeviceInfo read_info(int index) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .total_bytes = properties.totalGlobalMem,
          .l2_bytes = static_cast<size_t>(properties.l2CacheSize)};
}

// Null is CUDA's default stream, on which every thread starts.
thread_local constinit std::array<cudaStream_t, kMaxDevices> streams{};

}  // namespace

int device_count() {
  static const int count = find_devices();
  return count;
}

const DeviceInfo& device_info(int index) {
  static const std::vector<DeviceInfo> infos = [] {
    std::vector<DeviceInfo> result;
    for (int i = 0; i < device_count(); ++i) result.push_back(read_info(i));
    return result;
  }();
  return infos.at(static_cast<size_t>(index));
}

void use_device(int index) {
  require_not_forked();
  // Other libraries of the process may change the current device, so it is queried; on a machine
  // with one device there is nothing to change.
  if (device_count() == 1) return;
  int current = -1;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current != index) check_cuda(cudaSetDevice(index), "cudaSetDevice");
}

// Also used where nothing may be thrown; a failure shows in the call that the guard is for.
DeviceGuard::DeviceGuard(int index) : previous_(index) {
  if (device_count() == 1) return;
  if (cudaGetDevice(&previous_) == cudaSuccess && previous_ != index) cudaSetDevice(index);
}

DeviceGuard::~DeviceGuard() {
  if (device_count() > 1) cudaSetDevice(previous_);
}

cudaStream_t current_stream(int device) { return streams[static_cast<size_t>(device)]; }

void set_current_stream(int device, cudaStream_t stream) {
  flush_deferred();
  streams[static_cast<size_t>(device)] = stream;
}

}  // namespace tensora::cuda
