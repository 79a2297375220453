#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/dlpack.h>

#include "tensora/core/tensor.h"

namespace tensora::torch {

// Note [Two libraries, one memory]
// A tensor crosses between Tensora and LibTorch without a copy: both describe memory by an address,
// sizes and strides, and each keeps the other's owner alive. The memory goes back when the last
// tensor of either library is gone. What does not cross: the history of autograd (tensors that
// require grad are refused), and the counter of in-place writes, of which each library has its own.
// On CUDA both libraries queue work on streams of the same context. Where they currently use
// different streams, the receiving one is made to wait for the giving one by an event, the host
// never waits, and the memory's allocator learns about the second stream. `Scope` (scope.h) lets
// LibTorch use Tensora's stream, so that there is nothing to wait for.

/// The same memory as a tensor of LibTorch. Throws for dtypes that LibTorch does not have, which
/// are the quantized ones, and for tensors that require grad.
at::Tensor to_torch(const Tensor& tensor);
/// The same memory as a tensor of Tensora. Throws for sparse, nested and quantized tensors, lazy
/// conjugates, dtypes that Tensora does not have, and tensors that require grad.
Tensor from_torch(const at::Tensor& tensor);
/// The same; `also` lives as long as the memory is in use.
Tensor from_torch(const at::Tensor& tensor, Owner also);

/// DLPack 1.x. The caller owns the result, as the standard says: consume it, or call its deleter.
DLManagedTensorVersioned* to_dlpack(const Tensor& tensor);
/// Takes ownership, also when it throws.
Tensor from_dlpack(DLManagedTensorVersioned* managed);

at::ScalarType torch_dtype(DType dtype);
DType tensora_dtype(at::ScalarType dtype);
at::Device torch_device(Device device);

}  // namespace tensora::torch
