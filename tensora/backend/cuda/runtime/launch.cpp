#include <cuda.h>

#include <array>

#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/cluster.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/check.h"

// Note [Launching through the driver]
// cudaLaunchKernel is given the address of a kernel's host stub and looks up, at every call, which
// function of which device that is. A thread launches the same few kernels over and over, so it
// remembers the functions and calls the driver itself.

namespace tensora::cuda {
namespace {

template <class Function>
Function* driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check_cuda(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found),
             name);
  check(found == cudaDriverEntryPointSuccess, "cuda: the driver has no ", name);
  return reinterpret_cast<Function*>(address);
}

struct Known {
  const void* kernel = nullptr;
  int device = 0;
  CUfunction function = nullptr;
};
constexpr int kKnownBits = 8;
thread_local constinit std::array<Known, 1 << kKnownBits> known{};

// A kernel is given by its host stub, or, where it was compiled at run time, by its handle.
CUfunction find_function(const void* kernel) {
  const OutsideCapture outside;
  cudaFunction_t function = nullptr;
  const cudaError_t status = cudaGetFuncBySymbol(&function, kernel);
  if (status == cudaSuccess) return function;
  cudaGetLastError();
  static const auto of_kernel =
      driver_function<decltype(cuKernelGetFunction)>("cuKernelGetFunction");
  const auto handle = static_cast<CUkernel>(const_cast<void*>(kernel));
  if (of_kernel(&function, handle) == CUDA_SUCCESS) return function;
  fail_cuda(status, "finding a kernel");  // or an earlier kernel's fault
}

CUfunction function_of(const void* kernel, int device) {
  const auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(kernel));
  constexpr uint64_t fibonacci = 0x9e3779b97f4a7c15u;  // 2^64 divided by the golden ratio
  Known& entry = known[(bits * fibonacci) >> (64 - kKnownBits)];
  if (entry.kernel != kernel || entry.device != device) [[unlikely]]
    entry = {kernel, device, find_function(kernel)};
  return entry.function;
}

thread_local constinit bool early_launches = false;

/// A launch with attributes: `early`, and clusters of `cluster` blocks along x.
CUresult launch_with(bool early, unsigned cluster, CUfunction function, dim3 grid, dim3 block,
                     unsigned shared_bytes, CUstream stream, void** args) {
  static const auto launch = driver_function<decltype(cuLaunchKernelEx)>("cuLaunchKernelEx");
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (early) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count++].value.clusterDim = {cluster, 1, 1};
  }
  CUlaunchConfig config{};
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = block.x;
  config.blockDimY = block.y;
  config.blockDimZ = block.z;
  config.sharedMemBytes = shared_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return launch(&config, function, args, nullptr);
}

}  // namespace

EarlyLaunches::EarlyLaunches(bool on) : previous_(early_launches) { early_launches = on; }
EarlyLaunches::~EarlyLaunches() { early_launches = previous_; }

void Launch::run(const void* kernel, dim3 grid, dim3 block, void** args) const {
  run_in_clusters(*this, 1, kernel, grid, block, args);
}

void run_in_clusters(const Launch& how, unsigned cluster, const void* kernel, dim3 grid, dim3 block,
                     void** args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const int device = how.device;
  use_device(device);
  note_launch(how.op);
  static const auto launch = driver_function<decltype(cuLaunchKernel)>("cuLaunchKernel");
  const CUfunction function = function_of(kernel, device);
  const bool early = how.early && early_launches && device_info(device).major >= 9;
  const CUresult status = early || cluster > 1
                              ? launch_with(early, cluster, function, grid, block, how.shared_bytes,
                                            current_stream(device), args)
                              : launch(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                       how.shared_bytes, current_stream(device), args, nullptr);
  // The driver's codes are the runtime's.
  if (status != CUDA_SUCCESS) [[unlikely]]
    fail_cuda(static_cast<cudaError_t>(status), concat("the launch of ", how.op));
  after_launch(how.op, device);
}

}  // namespace tensora::cuda
