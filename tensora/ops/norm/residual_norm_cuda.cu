#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/norm/residual_norm_call.h"
#include "tensora/ops/norm/residual_norm_op.h"

namespace tensora::cuda {
namespace {

void residual_norm_kernel(const KernelContext& context, const ResidualNormAttrs& attrs) {
  const View &x = context.input(0), &weight = context.input(1), &out = context.output(0);
  if (out.numel == 0) return;
  const View* const residual = optional_input(context, 2);
  check(x.sizes.back() < int64_t{1} << 31, context.op, ": rows are too long: ", x.sizes.back());
  ResidualNormCall call{};
  call.x = x.data;
  call.x_dtype = x.dtype;
  call.weight = weight.data;
  call.weight_dtype = weight.dtype;
  if (residual) {
    call.residual = residual->data;
    call.residual_dtype = residual->dtype;
    call.sum = context.output(1).data;
  }
  call.out = out.data;
  call.out_dtype = out.dtype;
  call.width = static_cast<int>(x.sizes.back());
  call.rows = x.numel / call.width;
  call.eps = static_cast<float>(attrs.eps);
  call.unit_offset = attrs.unit_offset ? 1.0f : 0.0f;
  norm_residual(context.op, context.device.index, call);
}

}  // namespace

void register_residual_norm_cuda() {
  residual_norm_op.set_kernel(DeviceType::cuda, residual_norm_kernel);
}

}  // namespace tensora::cuda
