#include "tensora/ops/reduce/logsumexp.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/logsumexp_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void logsumexp_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute_floating(context.output().dtype,
                         [&]<class C>() { reduce(context, mask, reductions::LogSumExp<C>{}); });
}

}  // namespace

void register_logsumexp_cpu() { logsumexp_op.set_kernel(DeviceType::cpu, logsumexp_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
