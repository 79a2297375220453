#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/ops/shape/diagonal.h"

namespace tensora::cuda {
namespace {

void diag_embed_kernel(const KernelContext& context, const DiagEmbedAttrs& attrs) {
  const View& out = context.output();
  const DiagonalGeometry at =
      diagonal_geometry(out.sizes, out.strides, {attrs.offset, attrs.dim1, attrs.dim2}, context.op);
  fill_elements(context.op, out, 0);
  View target = out;
  target.sizes = at.sizes;
  target.strides = at.strides;
  target.data = out.as<char>() + at.start * static_cast<int64_t>(element_size(out.dtype));
  target.update();
  copy_elements(context.op, context.input(0), target);
}

}  // namespace

void register_diagonal_cuda() { diag_embed_op.set_kernel(DeviceType::cuda, diag_embed_kernel); }

}  // namespace tensora::cuda
