#include "tensora/jit/cuda_kernel.h"

#include <atomic>
#include <optional>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/backend.h"

namespace tensora::jit {
namespace {

std::atomic<CudaLauncher> cuda_launcher = nullptr;

}  // namespace

void set_cuda_launcher(CudaLauncher launcher) {
  cuda_launcher.store(launcher, std::memory_order_release);
}

void CudaKernel::run(const CudaGrid& grid, std::span<const CudaArgument> args) const {
  std::optional<Device> device;
  for (size_t i = 0; i < args.size(); ++i) {
    const Tensor* const tensor = args[i].tensor();
    if (!tensor) continue;
    check(tensor->defined(), "cuda_kernel ", name_, ": argument ", i, " is undefined");
    check(tensor->device().type == DeviceType::cuda, "cuda_kernel ", name_, ": argument ", i,
          " must be on a CUDA device, got one on ", tensor->device());
    check(!device || *device == tensor->device(), "cuda_kernel ", name_, ": argument ", i,
          " is on ", tensor->device(), ", others on ", device.value_or(Device()));
    check(!thread_state.grad_enabled || !tensor->requires_grad(), "cuda_kernel ", name_,
          ": argument ", i,
          " requires grad, and a kernel has no gradient; use no_grad or detach it");
    device = tensor->device();
  }
  check(device.has_value(), "cuda_kernel ", name_, ": needs a tensor");
  const auto is_empty = [](const CudaExtent& of) { return of.x == 0 || of.y == 0 || of.z == 0; };
  check(!is_empty(grid.threads), "cuda_kernel ", name_, ": threads: expected at least one, got ",
        grid.threads.x, " x ", grid.threads.y, " x ", grid.threads.z);
  std::vector<void*> pointers(args.size());
  std::vector<void*> addresses;
  for (size_t i = 0; i < args.size(); ++i) {
    if (const Tensor* const tensor = args[i].tensor()) {
      pointers[i] = tensor->data_ptr();
      addresses.push_back(&pointers[i]);
    } else {
      addresses.push_back(const_cast<void*>(args[i].number()));
    }
  }
  cuda_launcher.load(std::memory_order_acquire)(source_, name_, grid, addresses, *device);
  for (const CudaArgument& arg : args)  // any of them may have been written
    if (const Tensor* const tensor = arg.tensor()) tensor->impl().storage->bump_version();
}

}  // namespace tensora::jit
