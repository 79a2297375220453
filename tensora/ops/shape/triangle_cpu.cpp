// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/shape/triangle.h"

#include "tensora/backend/cpu/parts.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// The address of row number `row`, counted over all dims but the last.
template <class T>
T* row_at(const View& view, int64_t row) {
  int64_t offset = 0;
  for (int d = view.dim() - 2; d >= 0; --d) {
    offset += row % view.sizes[d] * view.strides[d];
    row /= view.sizes[d];
  }
  return view.as<T>() + offset;
}

// to[begin, end) = from there, or zero.
template <class T>
void copy_columns(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t begin,
                  int64_t end) {
  if (from == to) return;
  if (from_stride == 1 && to_stride == 1) {
    if (begin < end)
      std::memcpy(to + begin, from + begin, sizeof(T) * static_cast<size_t>(end - begin));
    return;
  }
  for (int64_t i = begin; i < end; ++i) to[i * to_stride] = from[i * from_stride];
}

template <class T>
void zero_columns(T* to, int64_t stride, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) to[i * stride] = T{};
}

enum class Keep { lower, upper };

template <class T>
void triangle(const View& in, const View& out, int64_t diagonal, Keep keep) {
  const int64_t rows = out.sizes[out.dim() - 2], columns = out.sizes.back();
  const int64_t in_stride = in.strides.back(), out_stride = out.strides.back();
  parallel_for(
      out.numel / columns, items_per_task(columns * int64_t{sizeof(T)}),
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* from = row_at<const T>(in, row);
          T* to = row_at<T>(out, row);
          const int64_t on = row % rows + diagonal;  // the diagonal's column
          const int64_t edge = std::clamp<int64_t>(keep == Keep::lower ? on + 1 : on, 0, columns);
          const bool lower = keep == Keep::lower;
          copy_columns(from, in_stride, to, out_stride, lower ? 0 : edge, lower ? edge : columns);
          zero_columns(to, out_stride, lower ? edge : 0, lower ? columns : edge);
        }
      });
}

template <Keep keep>
void triangle_kernel(const KernelContext& context, const TriangleAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  // Beyond any matrix a diagonal has no further effect, and its column must not overflow.
  const int64_t limit = out.sizes[out.dim() - 2] + out.sizes.back();
  const int64_t diagonal = std::clamp(attrs.diagonal, -limit, limit);
  visit_element_size(out.dtype,
                     [&]<class T>() { triangle<T>(context.input(0), out, diagonal, keep); });
}

}  // namespace

void register_triangle_cpu() {
  tril_op.set_kernel(DeviceType::cpu, triangle_kernel<Keep::lower>);
  triu_op.set_kernel(DeviceType::cpu, triangle_kernel<Keep::upper>);
}

}  // namespace tensora::cpu::TENSORA_ISA
