#include "tensora/ops/reduce/amax.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/extremum_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using namespace reductions;

template <bool largest>
void extremum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Extremum<C, largest>{}); });
}

void aminmax_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, MinMax<C>{}); });
}

}  // namespace

void register_amax_cpu() {
  amax_op.set_kernel(DeviceType::cpu, extremum_kernel<true>);
  amin_op.set_kernel(DeviceType::cpu, extremum_kernel<false>);
  max_op.set_kernel(DeviceType::cpu, extremum_kernel<true>);
  min_op.set_kernel(DeviceType::cpu, extremum_kernel<false>);
  aminmax_op.set_kernel(DeviceType::cpu, aminmax_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
