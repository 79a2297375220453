// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/shape/flip.h"

#include "tensora/backend/cpu/parts.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// The address of row number `row`, counted over all dims but the last.
template <class T>
const T* row_at(const View& view, int64_t row) {
  int64_t offset = 0;
  for (int d = view.dim() - 2; d >= 0; --d) {
    offset += row % view.sizes[d] * view.strides[d];
    row /= view.sizes[d];
  }
  return view.as<const T>() + offset;
}

// Rows of stride -1, written to contiguous memory.
template <class T>
void reverse_rows(const View& from, T* to) {
  const int64_t columns = from.sizes.back();
  parallel_for(from.numel / columns, items_per_task(columns * int64_t{sizeof(T)}),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const T* const last = row_at<T>(from, row);
                   T* const target = to + row * columns;
#pragma omp simd
                   for (int64_t i = 0; i < columns; ++i) target[i] = last[-i];
                 }
               });
}

// A flipped tensor is the tensor read from the other end with a negative stride.
void flip_kernel(const KernelContext& context, const FlipAttrs& attrs) {
  View from = context.input(0);
  const View& out = context.output();
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
  if (from.dim() == 0 || from.strides.back() != -1 || !out.contiguous)
    return copy_elements(from, out);
  visit_element_size(out.dtype, [&]<class T>() { reverse_rows<T>(from, out.as<T>()); });
}

}  // namespace

void register_flip_cpu() { flip_op.set_kernel(DeviceType::cpu, flip_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
