// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <cstring>

#include "tensora/ops/shape/as_strided.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Adds each element of the view's gradient where the view had read it. Serial: views may overlap
// themselves, and this path serves only rewritten bases and explicit as_strided calls.
template <class T>
void scatter_add(const View& grad, T* out, const AsStridedBackwardAttrs& attrs) {
  const T* in = grad.as<const T>();
  Shape index = Shape::filled(grad.dim(), 0);
  for (int64_t i = 0; i < grad.numel; ++i) {
    int64_t from = 0, to = attrs.offset;
    for (int d = 0; d < grad.dim(); ++d) {
      from += index[d] * grad.strides[d];
      to += index[d] * attrs.strides[d];
    }
    out[to] = T(static_cast<accumulate_t<T>>(out[to]) + static_cast<accumulate_t<T>>(in[from]));
    for (int d = grad.dim() - 1; d >= 0 && ++index[d] == grad.sizes[d]; --d) index[d] = 0;
  }
}

void as_strided_backward_kernel(const KernelContext& context, const AsStridedBackwardAttrs& attrs) {
  const View& out = context.output();
  std::memset(out.data, 0, out.bytes());
  visit_computing(out.dtype, [&]<class T>() { scatter_add(context.input(0), out.as<T>(), attrs); });
}

}  // namespace

void register_as_strided_cpu() {
  as_strided_backward_op.set_kernel(DeviceType::cpu, as_strided_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
