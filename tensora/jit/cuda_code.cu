#include "tensora/jit/cuda_code.h"

#include <cuda.h>

#include <future>
#include <map>
#include <mutex>
#include <tuple>

#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/nvrtc.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/jit/embedded.h"
#include "tensora/jit/kernel_store.h"

namespace tensora::jit {
namespace {

// Functors are constexpr functions without an execution space of their own; the warnings are about
// that, and about attributes for the host's compiler.
const std::vector<std::string>& options() {
  static const std::vector<std::string> list = {"-std=c++20", "--device-as-default-execution-space",
                                                "-minimal",
                                                "--diag-suppress=20012,20013,20014,20015,177,1097"};
  return list;
}

KernelSource source_of(const std::string& text, const std::string& architecture) {
  return {.text = text,
          .architecture = architecture,
          .compiler = concat("NVRTC ", cuda::nvrtc_version()),
          .options = options()};
}

std::string compile(const KernelSource& source) {
  std::vector<cuda::VirtualFile> files;
  for (int i = 0; i < embedded_file_count; ++i)
    files.push_back({embedded_files[i].name, embedded_files[i].text});
  return cuda::compile_cuda(source.text, files, source.architecture, source.options);
}

LoadedKernel load(const std::string& code, int device, const std::string& name) {
  const cuda::OutsideCapture outside;
  cuda::use_device(device);
  cudaLibrary_t library = nullptr;
  cuda::check_cuda(
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "loading a fused kernel");
  cudaKernel_t kernel = nullptr;
  if (cudaLibraryGetKernel(&kernel, library, name.c_str()) != cudaSuccess) {
    cudaGetLastError();
    fail("the text has no kernel called '", name, "'; declare it extern \"C\" __global__");
  }
  LoadedKernel loaded{.kernel = reinterpret_cast<const void*>(kernel)};
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, loaded.kernel) == cudaSuccess) {
    loaded.registers = attributes.numRegs;
    loaded.spilled_bytes = static_cast<int>(attributes.localSizeBytes);
  } else {
    cudaGetLastError();
  }
  return loaded;
}

/// The kernels that this process loaded. They stay for its life, as the library's own do.
class Loaded {
 public:
  LoadedKernel find(const std::string& text, int device, const std::string& name) {
    std::promise<LoadedKernel> made;
    std::shared_future<LoadedKernel> kernel;
    bool ours = false;
    {
      const std::lock_guard lock(mutex_);
      const auto [place, is_new] = kernels_.try_emplace({device, name, text});
      ours = is_new;
      if (ours) place->second = made.get_future().share();
      kernel = place->second;
    }
    if (!ours) {
      kernel_statistics().memory_hits.fetch_add(1, std::memory_order_relaxed);
      return kernel.get();
    }
    try {
      const cuda::DeviceInfo& info = cuda::device_info(device);
      const std::string architecture = concat("sm_", info.major, info.minor);
      made.set_value(load(stored_code(source_of(text, architecture), compile), device, name));
    } catch (...) {
      made.set_exception(std::current_exception());
    }
    return kernel.get();
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, std::string, std::string>, std::shared_future<LoadedKernel>> kernels_;
};

}  // namespace

LoadedKernel load_kernel(const std::string& text, int device, const std::string& name) {
  static Loaded loaded;
  return loaded.find(text, device, name);
}

std::string compile_text(const std::string& text, const std::string& architecture) {
  return compile(source_of(text, architecture));
}

}  // namespace tensora::jit
