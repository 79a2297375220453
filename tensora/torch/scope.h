#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "tensora/core/tensor.h"

namespace tensora::torch {

// Note [Memory of a graph across two libraries]
// A step that Tensora records as a CUDA graph may contain LibTorch's kernels. LibTorch does not
// know of that recording: its allocator would give memory that the graph uses to somebody else as
// soon as the step's tensors are gone. While this thread records, a Scope therefore lets LibTorch's
// allocator serve the stream from a pool of its own, as LibTorch does for graphs that it records
// itself, and the step's result keeps the pool. StepGraphs holds the result as long as the graph.

/// LibTorch's side of one call from Tensora: no autograd, and on CUDA the stream on which Tensora
/// works.
class Scope {
 public:
  explicit Scope(Device device);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The result of the call as a tensor of Tensora; see Note [Memory of a graph across two
  /// libraries].
  Tensor result(const at::Tensor& tensor) const;
  /// Whether what is queued now is recorded, so that the host must not wait.
  bool is_recording() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Memory of LibTorch's allocator on a device, in bytes.
struct TorchMemory {
  int64_t used = 0, reserved = 0;
};
TorchMemory torch_memory(Device device);
/// Gives back what LibTorch's allocator and cuBLAS keep for later.
void empty_torch_cache(Device device) noexcept;
/// Throws, with the reason, where this LibTorch cannot use the device.
void check_torch_device(Device device);

// The two halves of a crossing on CUDA; see Note [Two libraries, one memory]. `memory`: the
// beginning of a storage.
void hand_to_torch(void* memory, Device device);
void take_from_torch(const at::Tensor& tensor);

}  // namespace tensora::torch
