#include "tensora/ops/reduce/sum.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C>
struct Sum {
  using Value = C;
  using Lane = C;
  using Acc = std::conditional_t<std::is_floating_point_v<C>, double, C>;
  using Out = Acc;
  Lane lane() const { return 0; }
  Lane step(Lane lane, C x) const { return lane + x; }
  Lane merge(Lane a, Lane b) const { return a + b; }
  Acc widen(Lane lane) const { return lane; }
  Acc combine(Acc a, Acc b) const { return a + b; }
  Out finish(Acc acc) const { return acc; }
};

template <class C>
struct Mean : Sum<C> {
  using Out = double;
  double count = 1;
  double finish(double acc) const { return acc / count; }
};

void sum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, context.input(0).dim(), context.op);
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, Sum<C>{}); });
}

void mean_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  const double count = static_cast<double>(reduced_count(in.sizes, mask));
  visit_compute_floating(context.output().dtype,
                         [&]<class C>() { reduce(context, mask, Mean<C>{{}, count}); });
}

void sum_to_kernel(const KernelContext& context, const SumToAttrs& attrs) {
  const View& in = context.input(0);
  uint32_t mask = 0;
  for (int64_t d : broadcast_dims(attrs.size, in.sizes)) mask |= 1u << d;
  visit_compute(context.output().dtype, [&]<class C>() { reduce(context, mask, Sum<C>{}); });
}

}  // namespace

void register_sum_cpu() {
  sum_op.set_kernel(DeviceType::cpu, sum_kernel);
  mean_op.set_kernel(DeviceType::cpu, mean_kernel);
  sum_to_op.set_kernel(DeviceType::cpu, sum_to_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
