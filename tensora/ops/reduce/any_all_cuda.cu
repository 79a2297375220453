#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

template <bool every>
void truth_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Truth<C, every>{}); });
}

}  // namespace

void register_any_all_cuda() {
  any_op.set_kernel(DeviceType::cuda, truth_kernel<false>);
  all_op.set_kernel(DeviceType::cuda, truth_kernel<true>);
}

}  // namespace tensora::cuda
