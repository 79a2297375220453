#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/extremum_functors.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

template <bool largest>
void chosen_kernel(const KernelContext& context, const DimAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim ? Dims{*attrs.dim} : Dims{}, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() {
    if (context.out.size() == 2)
      reduce(context, mask, Chosen<C, largest, true>{});
    else
      reduce(context, mask, Chosen<C, largest, false>{});
  });
}

}  // namespace

void register_max_dim_cuda() {
  for (const OpDef<DimAttrs>* op : {&max_dim_op, &argmax_op})
    op->set_kernel(DeviceType::cuda, chosen_kernel<true>);
  for (const OpDef<DimAttrs>* op : {&min_dim_op, &argmin_op})
    op->set_kernel(DeviceType::cuda, chosen_kernel<false>);
}

}  // namespace tensora::cuda
