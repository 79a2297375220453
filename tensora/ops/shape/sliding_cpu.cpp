// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/shape/sliding.h"

#include <vector>

#include "tensora/backend/cpu/parts.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// The offsets of all elements of some dims, in row-major order.
std::vector<int64_t> offsets_of(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  std::vector<int64_t> result{0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(result.size() * static_cast<size_t>(sizes[d]));
    for (int64_t base : result)
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(base + i * strides[d]);
    result = std::move(next);
  }
  return result;
}

// out[o, p, j] = sum of grad[o, w, j, p - w * step] over the windows w that hold position p.
template <class T>
void add_windows(const View& grad /* outer.. windows inner.. size */, const View& out, int dim,
                 const SlidingBackwardAttrs& attrs) {
  const std::span<const int64_t> sizes(grad.sizes), strides(grad.strides);
  const auto split = static_cast<size_t>(dim);
  const std::vector<int64_t> outer = offsets_of(sizes.first(split), strides.first(split));
  const size_t inner_dims = sizes.size() - split - 2;
  const std::vector<int64_t> inner =
      offsets_of(sizes.subspan(split + 1, inner_dims), strides.subspan(split + 1, inner_dims));
  const int64_t positions = out.sizes[dim], windows = sizes[split];
  const int64_t window_stride = strides[split], element_stride = strides.back();
  const auto width = static_cast<int64_t>(inner.size());
  const int64_t lines = static_cast<int64_t>(outer.size()) * positions;
  parallel_for(lines, items_per_task(width * attrs.size * 8), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t p = line % positions;
      const int64_t first = p < attrs.size ? 0 : (p - attrs.size) / attrs.step + 1;
      const int64_t last = std::min(windows - 1, p / attrs.step);
      const T* from = grad.as<const T>() + outer[static_cast<size_t>(line / positions)];
      T* const to = out.as<T>() + line * width;
      for (int64_t j = 0; j < width; ++j) {
        accumulate_t<T> sum = 0;
        for (int64_t w = first; w <= last; ++w)
          sum +=
              static_cast<accumulate_t<T>>(from[inner[static_cast<size_t>(j)] + w * window_stride +
                                                (p - w * attrs.step) * element_stride]);
        to[j] = T(sum);
      }
    }
  });
}

void sliding_backward_kernel(const KernelContext& context, const SlidingBackwardAttrs& attrs) {
  const View &grad = context.input(0), &out = context.output();
  if (grad.numel == 0) return zero_elements(out);
  if (out.dim() == 0) {  // one window of the one element
    std::memcpy(out.data, grad.data, out.bytes());
    return;
  }
  const int dim = wrap_dim(attrs.dimension, out.dim(), context.op);
  visit_floating(out.dtype, context.op, [&]<class T>() { add_windows<T>(grad, out, dim, attrs); });
}

}  // namespace

void register_sliding_cpu() {
  sliding_backward_op.set_kernel(DeviceType::cpu, sliding_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
