#include "tensora/backend/cuda/copy.h"
#include "tensora/ops/shape/slice.h"

namespace tensora::cuda {
namespace {

// The part of `view` from `start` by `step` along one dim, `count` long.
View part(View view, int dim, int64_t start, int64_t step, int64_t count) {
  const auto bytes = static_cast<int64_t>(element_size(view.dtype));
  if (count > 0) view.data = view.as<char>() + start * view.strides[dim] * bytes;
  view.sizes[dim] = count;
  view.strides[dim] *= step;
  view.update();
  return view;
}

void slice_backward_kernel(const KernelContext& context, const SliceBackwardAttrs& attrs) {
  const View &grad = context.input(0), &out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  fill_elements(context.op, out, 0);
  copy_elements(context.op, grad, part(out, dim, attrs.start, attrs.step, grad.sizes[dim]));
}

}  // namespace

void register_slice_cuda() {
  slice_backward_op.set_kernel(DeviceType::cuda, slice_backward_kernel);
}

}  // namespace tensora::cuda
