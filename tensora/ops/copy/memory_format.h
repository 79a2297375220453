#pragma once

#include "tensora/core/memory_format.h"
#include "tensora/dispatch/op_def.h"

namespace tensora {

/// `self` if its elements lie in this order (row-major; or, for 4-D and 5-D tensors of images, with
/// the channels of a position side by side), else a copy in which they do. Sizes stay as they are.
Tensor contiguous(const Tensor& self, MemoryFormat memory_format);
/// The same; `preserve` returns `self`.
Tensor to(const Tensor& self, MemoryFormat memory_format);
/// A copy with memory of its own, in this order.
Tensor clone(const Tensor& self, MemoryFormat memory_format);
bool is_contiguous(const Tensor& self, MemoryFormat memory_format);

}  // namespace tensora
