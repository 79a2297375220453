// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/resample/pad.h"

#include "tensora/backend/cpu/parts.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Every element is written once: slab by slab before and after each dim, then the input.
void constant_pad_kernel(const KernelContext& context, const ConstantPadAttrs& attrs) {
  const View& in = context.input(0);
  View rest = context.output();
  if (rest.numel == 0) return;
  Complex<double> number = attrs.value.to<Complex<double>>();
  int64_t integer = 0;
  View value;
  value.data = &number;
  value.dtype = kComplex128;
  if (!is_differentiable(rest.dtype)) {
    integer = attrs.value.to<int64_t>();
    value.data = &integer;
    value.dtype = kInt64;
  }
  for (int d = 0; d < rest.dim(); ++d) {
    const int64_t size = rest.sizes[d], before = attrs.before[d], after = attrs.after[d];
    if (before > 0) copy_elements(value, part_of(rest, d, 0, 1, before));
    if (after > 0) copy_elements(value, part_of(rest, d, size - after, 1, after));
    rest = part_of(rest, d, before, 1, size - before - after);
  }
  if (in.numel > 0) copy_elements(in, rest);
}

}  // namespace

void register_pad_cpu() { constant_pad_op.set_kernel(DeviceType::cpu, constant_pad_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
