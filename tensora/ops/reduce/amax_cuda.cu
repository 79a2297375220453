#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/extremum_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
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

void register_amax_cuda() {
  amax_op.set_kernel(DeviceType::cuda, extremum_kernel<true>);
  amin_op.set_kernel(DeviceType::cuda, extremum_kernel<false>);
  max_op.set_kernel(DeviceType::cuda, extremum_kernel<true>);
  min_op.set_kernel(DeviceType::cuda, extremum_kernel<false>);
  aminmax_op.set_kernel(DeviceType::cuda, aminmax_kernel);
}

}  // namespace tensora::cuda
