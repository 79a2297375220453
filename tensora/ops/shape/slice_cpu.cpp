// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/backend/cpu/parts.h"
#include "tensora/ops/shape/slice.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void slice_backward_kernel(const KernelContext& context, const SliceBackwardAttrs& attrs) {
  const View &grad = context.input(0), &out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  const int64_t count = grad.sizes[dim];
  if (count == 0) return zero_elements(out);
  const int64_t after = attrs.start + (count - 1) * attrs.step + 1;
  copy_elements(grad, part_of(out, dim, attrs.start, attrs.step, count));
  zero_elements(part_of(out, dim, 0, 1, attrs.start));
  zero_elements(part_of(out, dim, after, 1, out.sizes[dim] - after));
  for (int64_t gap = 1; gap < attrs.step && count > 1; ++gap)
    zero_elements(part_of(out, dim, attrs.start + gap, attrs.step, count - 1));
}

}  // namespace

void register_slice_cpu() { slice_backward_op.set_kernel(DeviceType::cpu, slice_backward_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
