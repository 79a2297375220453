// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/shape/diagonal.h"

#include "tensora/backend/cpu/parts.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void diag_embed_kernel(const KernelContext& context, const DiagEmbedAttrs& attrs) {
  const View& out = context.output();
  const DiagonalGeometry at =
      diagonal_geometry(out.sizes, out.strides, {attrs.offset, attrs.dim1, attrs.dim2}, context.op);
  zero_elements(out);
  View target = out;
  target.sizes = at.sizes;
  target.strides = at.strides;
  target.data = out.as<char>() + at.start * static_cast<int64_t>(element_size(out.dtype));
  target.update();
  copy_elements(context.input(0), target);
}

}  // namespace

void register_diagonal_cpu() { diag_embed_op.set_kernel(DeviceType::cpu, diag_embed_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
