// The ops that the autograd engine needs, which must not include them.
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sparse/sparse_parts.h"

namespace tensora {
namespace {

Tensor cast_to(const Tensor& tensor, DType dtype, Device device) {
  return to(tensor, device, dtype);
}

// As amax accepts it: the parts of complex numbers, 8-bit floats as wider ones.
Tensor as_reals(const Tensor& tensor) {
  if (tensor.is_complex()) return view_as_real(tensor);
  return dtype_info(tensor.dtype()).computes ? tensor : to(tensor, kFloat32);
}

// The maximum is NaN as soon as one element is: one pass and one number from the device.
bool has_nan(const Tensor& tensor) {
  if (!is_differentiable(tensor.dtype()) || tensor.numel() == 0 || tensor.is_meta()) return false;
  const no_grad silent;
  const double maximum = amax(as_reals(tensor)).item<double>();
  return maximum != maximum;
}

}  // namespace

void register_engine_hooks(OpRegistry&) {
  set_engine_ops({
      .add = [](const Tensor& a, const Tensor& b) { return add(a, b); },
      .add_ = [](const Tensor& a, const Tensor& b) { add_(a, b); },
      .ones_like = [](const Tensor& x) { return ones_like(x); },
      .zeros = [](const Shape& sizes, DType dtype,
                  Device device) { return zeros(sizes, {.dtype = dtype, .device = device}); },
      .clone = [](const Tensor& x) { return x.is_contiguous() ? clone(x) : contiguous(x); },
      .copy_ = [](const Tensor& target, const Tensor& from) { copy_(target, from); },
      .sum_to = [](const Tensor& x, const Shape& sizes) { return sum_to(x, sizes); },
      .cast = cast_to,
      .has_nan = has_nan,
      .densify = densified,
      .join_sparse = joined_entries,
  });
}

}  // namespace tensora
