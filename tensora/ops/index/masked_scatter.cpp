// Registers nothing: functions of other ops.
#include "tensora/ops/index/masked_scatter.h"

#include "tensora/core/thread_state.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

void check_arguments(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check(mask.dtype() == kBool, "masked_scatter: expected a bool mask, got ", mask.dtype());
  check(source.dtype() == self.dtype(), "masked_scatter: expected a source of dtype ", self.dtype(),
        ", got ", source.dtype());
}

// On a device, or in a traced function, the gather finds out that there are too few, and the host
// need not wait for the count.
void check_count(const Tensor& mask, const Tensor& source) {
  const bool waits = !mask.is_cpu() || thread_state.interceptor;
  if (mask.is_meta() || mask.numel() == 0 || (waits && source.numel() > 0)) return;
  const auto wanted = sum(mask).item<int64_t>();
  check(wanted <= source.numel(), "masked_scatter: the mask has ", wanted,
        " true elements, but the source has only ", source.numel(), " elements");
}

}  // namespace

Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_arguments(self, mask, source);
  const Shape sizes = broadcast_shapes(self.sizes(), mask.sizes(), "masked_scatter");
  const Tensor wide_mask = expand(mask, sizes), old = expand(self, sizes);
  check_count(wide_mask, source);
  if (source.numel() == 0) return clone(old);
  // The k-th true element takes element k of the source; what the others point at is not used.
  const Tensor place = clamp_min(cumsum(ravel(wide_mask), 0) - 1, 0);
  const Tensor taken = called_as(
      "masked_scatter", [&] { return reshape(index_select(ravel(source), 0, place), sizes); });
  return where(wide_mask, taken, old);
}

const Tensor& masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_arguments(self, mask, source);
  check(can_broadcast_to(mask.sizes(), self.sizes()), "masked_scatter_: a mask of shape ",
        mask.sizes(), " cannot be broadcast to shape ", self.sizes());
  return copy_(self, masked_scatter(self, mask, source));
}

}  // namespace tensora
