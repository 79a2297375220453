#include "tensora/ops/shape/slice.h"

#include "tensora/backend/cpu/copy.h"

namespace tensora::cpu::TENSORA_ISA {
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

void zero(const View& target) {
  static constexpr int64_t nothing = 0;
  if (target.numel == 0) return;
  View source = target;
  source.data = const_cast<int64_t*>(&nothing);
  source.strides = Strides::filled(target.dim(), 0);
  source.update();
  copy_elements(source, target);
}

void slice_backward_kernel(const KernelContext& context, const SliceBackwardAttrs& attrs) {
  const View &grad = context.input(0), &out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  const int64_t count = grad.sizes[dim];
  const int64_t after = count == 0 ? 0 : attrs.start + (count - 1) * attrs.step + 1;
  // Every element is written once, except between the steps.
  if (count == 0) return zero(out);
  copy_elements(grad, part(out, dim, attrs.start, attrs.step, count));
  zero(part(out, dim, 0, 1, attrs.start));
  zero(part(out, dim, after, 1, out.sizes[dim] - after));
  for (int64_t gap = 1; gap < attrs.step && count > 1; ++gap)
    zero(part(out, dim, attrs.start + gap, attrs.step, count - 1));
}

}  // namespace

void register_slice_cpu() { slice_backward_op.set_kernel(DeviceType::cpu, slice_backward_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
