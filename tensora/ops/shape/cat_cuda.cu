#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/ops/shape/cat.h"

namespace tensora::cuda {
namespace {

void cat_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  int64_t start = 0;
  for (const View* from : context.in) {
    if (from->dim() != out.dim()) continue;  // the ignored empty ones
    copy_elements(context.op, *from, part_of(out, dim, start, 1, from->sizes[dim]));
    start += from->sizes[dim];
  }
}

void stack_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  int64_t start = 0;
  for (const View* from : context.in) {
    View widened = *from;
    widened.sizes.insert(dim, 1);
    widened.strides.insert(dim, 1);
    widened.update();
    copy_elements(context.op, widened, part_of(out, dim, start++, 1, 1));
  }
}

}  // namespace

void register_cat_cuda() {
  cat_op.set_kernel(DeviceType::cuda, cat_kernel);
  stack_op.set_kernel(DeviceType::cuda, stack_kernel);
}

}  // namespace tensora::cuda
