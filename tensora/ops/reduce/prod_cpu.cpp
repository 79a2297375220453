#include "tensora/ops/reduce/prod.h"

#include "tensora/backend/cpu/reduce_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C>
struct Product {
  using Value = C;
  using Lane = C;
  using Acc = sum_t<C>;
  using Out = Acc;
  Lane lane() const { return 1; }
  Lane step(Lane lane, C x) const { return lane * x; }
  Lane merge(Lane a, Lane b) const { return a * b; }
  Acc widen(Lane lane) const { return lane; }
  Acc combine(Acc a, Acc b) const { return a * b; }
  Out finish(Acc acc) const { return acc; }
};

void prod_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, Product<C>{}); });
}

}  // namespace

void register_prod_cpu() { prod_op.set_kernel(DeviceType::cpu, prod_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
