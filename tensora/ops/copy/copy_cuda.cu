#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/ops/copy/copy.h"

namespace tensora::cuda {
namespace {

template <class Attrs>
void copy_last(const KernelContext& context, const Attrs&) {
  copy_elements(context.op, *context.in.back(), context.output());
}

}  // namespace

void register_copy_cuda() {
  for (const OpDef<NoAttrs>* op : {&copy_op, &clone_op, &contiguous_op})
    op->set_kernel(DeviceType::cuda, copy_last<NoAttrs>);
  cast_op.set_kernel(DeviceType::cuda, copy_last<CastAttrs>);
}

}  // namespace tensora::cuda
