// Registers nothing: functions of other ops.
#include "tensora/ops/index/masked.h"

#include "tensora/core/fit_scalar.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/index/nonzero.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

using functors::MaskedFill;

void check_mask(const Tensor& mask, std::string_view op) {
  check(mask.dtype() == kBool, op, ": expected a bool mask, got ", mask.dtype());
}

// The value in the category of `self`, so that it does not widen the result.
MaskedFill filling(const Tensor& self, Scalar value) {
  return {{}, fit_scalar(value, self.dtype(), "masked_fill")};
}

Tensor chosen(const Tensor& self, const Tensor& mask, const Tensor& value) {
  check_mask(mask, "masked_fill");
  check(value.dim() == 0, "masked_fill: expected a 0-dim value, got ", value.dim(), " dimensions");
  if (value.is_complex() && !self.is_complex()) return masked_fill(self, mask, value.item());
  return where(mask, to(value, self.device(), self.dtype()), self);
}

}  // namespace

Tensor masked_fill(const Tensor& self, const Tensor& mask, Scalar value) {
  check_mask(mask, "masked_fill");
  return apply(pointwise_op<MaskedFill>(), {self, mask}, filling(self, value));
}
Tensor masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value) {
  return chosen(self, mask, value);
}
const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, Scalar value) {
  check_mask(mask, "masked_fill_");
  return apply_inplace(pointwise_op<MaskedFill>(), {self, mask}, filling(self, value));
}
const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value) {
  check(can_broadcast_to(mask.sizes(), self.sizes()), "masked_fill_: a mask of shape ",
        mask.sizes(), " cannot be broadcast to shape ", self.sizes());
  return copy_(self, chosen(self, mask, value));
}

Tensor masked_select(const Tensor& self, const Tensor& mask) {
  check_mask(mask, "masked_select");
  const Shape common = broadcast_shapes(self.sizes(), mask.sizes(), "masked_select");
  const Tensor places = nonzero(ravel(expand(mask, common)));
  return index_select(ravel(expand(self, common)), 0, ravel(places));
}

}  // namespace tensora
