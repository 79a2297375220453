#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/ops/copy/fill.h"

namespace tensora::cuda {
namespace {

void fill_kernel(const KernelContext& context, const FillAttrs& attrs) {
  fill_elements(context.op, context.output(), attrs.value);
}

}  // namespace

void register_fill_cuda() { fill_op.set_kernel(DeviceType::cuda, fill_kernel); }

}  // namespace tensora::cuda
