#include "tensora/ops/copy/copy.h"

#include "tensora/backend/cpu/copy.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class Attrs>
void copy_last(const KernelContext& context, const Attrs&) {
  copy_elements(*context.in.back(), context.output());
}

}  // namespace

void register_copy_cpu() {
  for (const OpDef<NoAttrs>* op : {&copy_op, &clone_op, &contiguous_op})
    op->set_kernel(DeviceType::cpu, copy_last<NoAttrs>);
  cast_op.set_kernel(DeviceType::cpu, copy_last<CastAttrs>);
}

}  // namespace tensora::cpu::TENSORA_ISA
