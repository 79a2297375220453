#include "tensora/core/kernel.h"
#include "tensora/ops/attention/packed_gradients_op.h"

namespace tensora::cuda {
namespace {

// The ordinary kernel, writing into parts of the result.
void packed_backward_kernel(const KernelContext& context, const AttentionAttrs& attrs) {
  const View& out = context.output();  // B L 3 H D
  View parts[3];
  const View* written[3];
  for (int64_t i = 0; i < 3; ++i) {
    View& part = parts[i];
    part = out;
    part.data = out.as<char>() + i * out.strides[2] * static_cast<int64_t>(element_size(out.dtype));
    part.sizes = {out.sizes[0], out.sizes[3], out.sizes[1], out.sizes[4]};
    part.strides = {out.strides[0], out.strides[3], out.strides[1], out.strides[4]};
    part.update();
    written[i] = &part;
  }
  KernelContext inner = context;
  inner.out = written;
  attention_backward_op.kernel(DeviceType::cuda)(inner, attrs);
}

}  // namespace

void register_packed_gradients_cuda() {
  packed_attention_backward_op.set_kernel(DeviceType::cuda, packed_backward_kernel);
}

}  // namespace tensora::cuda
