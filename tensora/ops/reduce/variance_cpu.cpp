#include "tensora/ops/reduce/variance.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <bool root>
void variance_kernel(const KernelContext& context, const VarianceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  const double count = static_cast<double>(reduced_count(in.sizes, mask));
  const double divisor = std::max(0.0, count - attrs.correction);
  visit_compute_floating(in.dtype, [&]<class C>() {
    reduce(context, mask, reductions::Variance<C>{{}, divisor, root});
  });
}

}  // namespace

void register_variance_cpu() {
  var_op.set_kernel(DeviceType::cpu, variance_kernel<false>);
  var_mean_op.set_kernel(DeviceType::cpu, variance_kernel<false>);
  std_op.set_kernel(DeviceType::cpu, variance_kernel<true>);
  std_mean_op.set_kernel(DeviceType::cpu, variance_kernel<true>);
}

}  // namespace tensora::cpu::TENSORA_ISA
