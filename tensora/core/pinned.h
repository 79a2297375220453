#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

// Note [Pinned memory]
// A device such as a GPU copies from and to page-locked host memory by itself, while the host goes
// on. A backend that has such memory says so here, for code that does not know the device.

/// Page-locked host memory of a kind of device.
struct PinnedMemory {
  /// An uninitialised host tensor. It may be destroyed while a copy is still queued.
  Tensor (*empty)(const Shape& sizes, DType dtype);
  bool (*holds)(const Tensor& tensor);
  /// Queues a copy between such a tensor and one on a device, alike in shape and dtype and both
  /// contiguous, on this thread's queue, and returns immediately. What is read must not be changed
  /// before the copy is done.
  void (*copy_async)(const Tensor& to, const Tensor& from);
};

/// Null where devices of this kind have none. Loads the backend, and throws where it is missing.
const PinnedMemory* pinned_memory(DeviceType type);
/// Called once, by the backend. The object must never be destroyed.
void set_pinned_memory(DeviceType type, const PinnedMemory* memory);

}  // namespace tensora
