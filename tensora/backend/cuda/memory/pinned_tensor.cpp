#include "tensora/backend/cuda/memory/pinned_tensor.h"

#include <cstring>
#include <memory>

#include "tensora/backend/cuda/memory/pinned.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/check.h"
#include "tensora/core/pinned.h"
#include "tensora/core/queue.h"

namespace tensora::cuda {

Tensor pinned_empty(const Shape& sizes, DType dtype) {
  backend(DeviceType::cuda);  // throws where there is none
  const size_t bytes = static_cast<size_t>(sizes.numel()) * element_size(dtype);
  void* const block = pinned_pool().allocate(bytes);
  const std::shared_ptr<void> owner(block, [](void* freed) { pinned_pool().free(freed); });
  return make_view(Storage::wrap(block, bytes, DeviceType::cpu, owner), sizes,
                   contiguous_strides(sizes), 0, dtype);
}

Tensor pin(const Tensor& tensor) {
  check(tensor.is_cpu() && tensor.is_contiguous(),
        "pin: expected a contiguous tensor on the host, got one on ", tensor.device(),
        " with strides ", tensor.strides());
  const Tensor copy = pinned_empty(tensor.sizes(), tensor.dtype());
  if (tensor.numel() > 0) std::memcpy(copy.data_ptr(), tensor.data_ptr(), tensor.nbytes());
  return copy;
}

bool is_pinned(const Tensor& tensor) {
  return tensor.is_cpu() && queue_control(DeviceType::cuda) &&
         pinned_pool().holds(tensor.impl().storage->data());
}

void copy_async(const Tensor& to, const Tensor& from) {
  check(to.sizes() == from.sizes() && to.dtype() == from.dtype(), "copy_async: expected ",
        to.dtype(), " of shape ", to.sizes(), ", got ", from.dtype(), " of shape ", from.sizes());
  check(to.is_contiguous() && from.is_contiguous(), "copy_async: both tensors must be contiguous");
  const bool to_device = to.is_cuda() && is_pinned(from);
  check(to_device || (from.is_cuda() && is_pinned(to)),
        "copy_async: expected a pinned host tensor and one on a CUDA device, got ", from.device(),
        " to ", to.device(), "; cuda::pin makes a pinned copy");
  if (to.numel() == 0) return;
  const int device = to_device ? to.device().index : from.device().index;
  use_device(device);
  const cudaStream_t stream = current_stream(device);
  const Tensor& host = to_device ? from : to;
  pinned_pool().note_use(host.impl().storage->data(), {device, stream});
  note_launch("copy_async");
  check_cuda(cudaMemcpyAsync(to.data_ptr(), from.data_ptr(), to.nbytes(),
                             to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream),
             "the asynchronous copy");
  to.impl().storage->bump_version();
  after_launch("copy_async", device);
}

void register_pinned_memory() {
  static constexpr PinnedMemory memory{pinned_empty, is_pinned, copy_async};
  set_pinned_memory(DeviceType::cuda, &memory);
}

}  // namespace tensora::cuda
