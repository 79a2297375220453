#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/ops/resample/pad.h"

namespace tensora::cuda {
namespace {

constexpr int64_t kSmall = 1 << 18;

// Large results are written once: slab by slab before and after each dim, then the input. For small
// ones the number of launches counts, not the bytes.
void constant_pad_kernel(const KernelContext& context, const ConstantPadAttrs& attrs) {
  View rest = context.output();
  if (rest.numel == 0) return;
  const bool whole = rest.numel <= kSmall;
  if (whole) fill_elements(context.op, rest, attrs.value);
  for (int d = 0; d < rest.dim(); ++d) {
    const int64_t size = rest.sizes[d], before = attrs.before[d], after = attrs.after[d];
    const auto fill = [&](int64_t start, int64_t count) {
      if (count > 0 && !whole)
        fill_elements(context.op, part_of(rest, d, start, 1, count), attrs.value);
    };
    fill(0, before);
    fill(size - after, after);
    rest = part_of(rest, d, before, 1, size - before - after);
  }
  if (rest.numel > 0) copy_elements(context.op, context.input(0), rest);
}

}  // namespace

void register_pad_cuda() { constant_pad_op.set_kernel(DeviceType::cuda, constant_pad_kernel); }

}  // namespace tensora::cuda
