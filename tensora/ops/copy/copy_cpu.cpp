#include "tensora/ops/copy/copy.h"

#include "tensora/backend/cpu/copy.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class Attrs>
void copy_last(const KernelContext& context, const Attrs&) {
  copy_elements(*context.in.back(), context.output());
}

void to_device_kernel(const KernelContext& context, const ToDeviceAttrs& attrs) {
  const View &from = context.input(0), &to = context.output();
  if (attrs.device.is_meta()) return;
  backend(attrs.device.type).copy_bytes(to.data, to.device, from.data, from.device, from.bytes());
}

}  // namespace

void register_copy_cpu() {
  for (const OpDef<NoAttrs>* op : {&copy_op, &clone_op, &contiguous_op})
    op->set_kernel(DeviceType::cpu, copy_last<NoAttrs>);
  cast_op.set_kernel(DeviceType::cpu, copy_last<CastAttrs>);
  to_device_op.set_kernel(DeviceType::cpu, to_device_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
