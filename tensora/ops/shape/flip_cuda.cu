#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/ops/shape/flip.h"

namespace tensora::cuda {
namespace {

// A flipped tensor is the tensor read from the other end with a negative stride.
void flip_kernel(const KernelContext& context, const FlipAttrs& attrs) {
  View from = context.input(0);
  if (from.numel == 0) return;
  int64_t start = 0;
  for (int64_t dim : attrs.dims) {
    if (from.dim() == 0) break;
    const int d = wrap_dim(dim, from.dim(), context.op);
    start += (from.sizes[d] - 1) * from.strides[d];
    from.strides[d] = -from.strides[d];
  }
  from.data = from.as<char>() + start * static_cast<int64_t>(element_size(from.dtype));
  from.update();
  copy_elements(context.op, from, context.output());
}

}  // namespace

void register_flip_cuda() { flip_op.set_kernel(DeviceType::cuda, flip_kernel); }

}  // namespace tensora::cuda
