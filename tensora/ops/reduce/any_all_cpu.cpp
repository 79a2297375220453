// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/reduce/any_all.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using reductions::Truth;

template <bool every>
void truth_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  if (element_size(in.dtype) == 1) return reduce(context, mask, Truth<uint8_t, every>{});
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Truth<C, every>{}); });
}

}  // namespace

void register_any_all_cpu() {
  any_op.set_kernel(DeviceType::cpu, truth_kernel<false>);
  all_op.set_kernel(DeviceType::cpu, truth_kernel<true>);
}

}  // namespace tensora::cpu::TENSORA_ISA
