#include "tensora/backend/cuda/copy.h"
#include "tensora/ops/copy/copy.h"

namespace tensora::cuda {
namespace {

template <class Attrs>
void copy_last(const KernelContext& context, const Attrs&) {
  copy_elements(context.op, *context.in.back(), context.output());
}

void to_device_kernel(const KernelContext& context, const ToDeviceAttrs& attrs) {
  const View &from = context.input(0), &to = context.output();
  if (attrs.device.is_meta()) return;
  backend(DeviceType::cuda).copy_bytes(to.data, to.device, from.data, from.device, from.bytes());
}

}  // namespace

void register_copy_cuda() {
  for (const OpDef<NoAttrs>* op : {&copy_op, &clone_op, &contiguous_op})
    op->set_kernel(DeviceType::cuda, copy_last<NoAttrs>);
  cast_op.set_kernel(DeviceType::cuda, copy_last<CastAttrs>);
  to_device_op.set_kernel(DeviceType::cuda, to_device_kernel);
}

}  // namespace tensora::cuda
