#include "tensora/ops/reduce/prod.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void prod_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute(context.output().dtype,
                [&]<class C>() { reduce(context, mask, reductions::Product<C>{}); });
}

}  // namespace

void register_prod_cpu() { prod_op.set_kernel(DeviceType::cpu, prod_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
