#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/ops/shape/slice.h"

namespace tensora::cuda {
namespace {

void slice_backward_kernel(const KernelContext& context, const SliceBackwardAttrs& attrs) {
  const View &grad = context.input(0), &out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  fill_elements(context.op, out, 0);
  copy_elements(context.op, grad, part_of(out, dim, attrs.start, attrs.step, grad.sizes[dim]));
}

}  // namespace

void register_slice_cuda() {
  slice_backward_op.set_kernel(DeviceType::cuda, slice_backward_kernel);
}

}  // namespace tensora::cuda
