#pragma once

// Host tensors that the device can read and write by itself. No CUDA header is needed.

#include "tensora/core/tensor.h"

namespace tensora::cuda {

/// An uninitialised host tensor in page-locked memory, from a pool. It may be destroyed while a
/// copy is still queued; its memory is then not reused until the copy is done.
Tensor pinned_empty(const Shape& sizes, DType dtype = DType::float32);
/// A page-locked copy of a host tensor.
Tensor pin(const Tensor& tensor);
bool is_pinned(const Tensor& tensor);

/// Queues a copy between a pinned host tensor and a tensor on a device, of the same shape and dtype
/// and both contiguous, and returns immediately. What is read must not be changed, and what is
/// written must not be read, before the copy is done: wait for an Event, or for the stream. (An
/// ordinary copy_ needs no such care: to the device it reads the values before it returns, to the
/// host it waits.) Records no gradient.
void copy_async(const Tensor& to, const Tensor& from);

}  // namespace tensora::cuda
