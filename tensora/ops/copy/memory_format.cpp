// Registers nothing: functions of other ops.
#include "tensora/ops/copy/memory_format.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/shape/permute.h"

namespace tensora {
namespace {

void check_format(const Tensor& self, MemoryFormat format, const char* op) {
  if (format == MemoryFormat::channels_last)
    check(self.dim() == 4, op, ": channels_last needs a 4-D tensor, got shape ", self.sizes());
  if (format == MemoryFormat::channels_last_3d)
    check(self.dim() == 5, op, ": channels_last_3d needs a 5-D tensor, got shape ", self.sizes());
}

// The dims with the second one last, and the order that undoes it.
Dims channels_behind(int dims) {
  Dims order = {0};
  for (int d = 2; d < dims; ++d) order.push_back(d);
  order.push_back(1);
  return order;
}
Dims channels_second(int dims) {
  Dims order = {0, dims - 1};
  for (int d = 1; d < dims - 1; ++d) order.push_back(d);
  return order;
}

// copy() of the tensor in the order in which its elements are to lie.
template <class Copy>
Tensor in_format(const Tensor& self, MemoryFormat format, Copy&& copy) {
  if (format == MemoryFormat::contiguous) return copy(self);
  return permute(copy(permute(self, channels_behind(self.dim()))), channels_second(self.dim()));
}

}  // namespace

Tensor contiguous(const Tensor& self, MemoryFormat memory_format) {
  check(memory_format != MemoryFormat::preserve,
        "contiguous: expected contiguous, channels_last or channels_last_3d, got preserve");
  check_format(self, memory_format, "contiguous");
  if (has_format(self.sizes(), self.strides(), memory_format)) return self;
  return in_format(self, memory_format, [](const Tensor& x) { return contiguous(x); });
}

Tensor to(const Tensor& self, MemoryFormat memory_format) {
  return memory_format == MemoryFormat::preserve ? self : contiguous(self, memory_format);
}

Tensor clone(const Tensor& self, MemoryFormat memory_format) {
  check_format(self, memory_format, "clone");
  if (memory_format == MemoryFormat::preserve) return clone(self);
  return in_format(self, memory_format,
                   [](const Tensor& x) { return x.is_contiguous() ? clone(x) : contiguous(x); });
}

bool is_contiguous(const Tensor& self, MemoryFormat memory_format) {
  check(memory_format != MemoryFormat::preserve,
        "is_contiguous: expected contiguous, channels_last or channels_last_3d, got preserve");
  return has_format(self.sizes(), self.strides(), memory_format);
}

}  // namespace tensora
