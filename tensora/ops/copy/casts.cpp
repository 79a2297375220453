// Registers nothing: functions of other ops.
#include "tensora/ops/copy/casts.h"

#include "tensora/core/tensor.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"

namespace tensora {

Tensor half(const Tensor& self) { return to(self, kFloat16); }
Tensor bfloat16(const Tensor& self) { return to(self, kBFloat16); }
Tensor byte(const Tensor& self) { return to(self, kUInt8); }
Tensor cfloat(const Tensor& self) { return to(self, kComplex64); }
Tensor cdouble(const Tensor& self) { return to(self, kComplex128); }

int64_t nelement(const Tensor& self) { return self.numel(); }
bool is_signed(const Tensor& self) { return self.dtype() != kUInt8 && self.dtype() != kBool; }
bool is_nonzero(const Tensor& self) {
  check(self.numel() == 1, "is_nonzero: expected one element, got shape ", self.sizes());
  return !(self.item() == 0);
}
bool is_same_size(const Tensor& self, const Tensor& other) { return self.sizes() == other.sizes(); }

Tensor adjoint(const Tensor& self) {
  check(self.dim() != 1, "adjoint: expected matrices or a 0-dim tensor, got a vector");
  return conj(self.dim() == 0 ? self : transpose(self, -2, -1));
}
Tensor mH(const Tensor& self) {
  return called_as("mH", [&] { return adjoint(self); });
}
Tensor numpy_T(const Tensor& self) {
  Dims order;
  for (int i = self.dim() - 1; i >= 0; --i) order.push_back(i);
  return permute(self, order);
}

Tensor new_empty_strided(const Tensor& self, const Shape& size, const Strides& stride,
                         const TensorOptions& options) {
  TensorOptions filled = options;
  if (!filled.dtype) filled.dtype = self.dtype();
  if (!filled.device) filled.device = self.device();
  return empty_strided(size, stride, filled);
}

Tensor scalar_tensor(Scalar s, const TensorOptions& options) {
  TensorOptions filled = options;
  // PyTorch's is a float whatever the number is.
  if (!filled.dtype && !s.is_complex()) filled.dtype = default_dtype();
  return full({}, s, filled);
}

Tensor sum_to_size(const Tensor& self, const Shape& size) {
  check(can_broadcast_to(size, self.sizes()), "sum_to_size: shape ", size,
        " cannot be expanded to shape ", self.sizes());
  // Sums of integers are int64, as everywhere but in the gradients that sum_to serves.
  const bool whole = !self.is_floating_point() && !self.is_complex();
  const bool sums = size != self.sizes() || self.dim() == 0;
  return sum_to(whole && sums ? to(self, kInt64) : self, size);
}

}  // namespace tensora
