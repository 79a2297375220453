// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/shape/cat.h"

#include "tensora/backend/cpu/parts.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Writes `from` to the places [start, start + its size) of one dim of `out`.
void place(const View& from, const View& out, int dim, int64_t start) {
  const View target = part_of(out, dim, start, 1, from.sizes[dim]);
  const bool plain = from.dtype == out.dtype && from.contiguous && out.contiguous;
  if (!plain || target.contiguous) return copy_elements(from, target);
  int64_t rows = 1;
  for (int d = 0; d < dim; ++d) rows *= out.sizes[d];
  const int64_t row_bytes = static_cast<int64_t>(from.bytes()) / rows;
  const int64_t out_step = static_cast<int64_t>(out.bytes()) / rows;
  copy_rows(from.as<char>(), row_bytes, target.as<char>(), out_step, rows, row_bytes);
}

void cat_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  int64_t start = 0;
  for (const View* from : context.in) {
    if (from->dim() != out.dim()) continue;  // the ignored empty ones
    if (from->numel != 0) place(*from, out, dim, start);
    start += from->sizes[dim];
  }
}

void stack_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  if (out.numel == 0) return;
  int64_t start = 0;
  for (const View* from : context.in) {
    View widened = *from;
    widened.sizes.insert(dim, 1);
    widened.strides.insert(dim, 1);
    place(widened, out, dim, start++);
  }
}

}  // namespace

void register_cat_cpu() {
  cat_op.set_kernel(DeviceType::cpu, cat_kernel);
  stack_op.set_kernel(DeviceType::cpu, stack_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
