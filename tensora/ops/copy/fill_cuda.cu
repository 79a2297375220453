#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/core/fit_scalar.h"
#include "tensora/ops/copy/fill.h"

namespace tensora::cuda {
namespace {

void fill_kernel(const KernelContext& context, const FillAttrs& attrs) {
  const View& out = context.output();
  fill_elements(context.op, out, fit_scalar(attrs.value, out.dtype, context.op));
}

}  // namespace

void register_fill_cuda() { fill_op.set_kernel(DeviceType::cuda, fill_kernel); }

}  // namespace tensora::cuda
