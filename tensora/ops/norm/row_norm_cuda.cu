#include "tensora/ops/norm/row_norm_kernels.cuh"

namespace tensora::cuda {
namespace {

void layer_norm_kernel(const KernelContext& context, const LayerNormAttrs& attrs) {
  NormJob job{};
  job.x = &context.input(0);
  job.weight = optional_input(context, 1);
  job.bias = optional_input(context, 2);
  job.y = &context.output(0);
  job.mean = &context.output(1);
  job.rstd = &context.output(2);
  job.eps = attrs.eps;
  run_norm<false>(context, job, attrs.normalized_shape);
}

void rms_norm_kernel(const KernelContext& context, const RmsNormAttrs& attrs) {
  NormJob job{};
  job.x = &context.input(0);
  job.weight = optional_input(context, 1);
  job.y = &context.output(0);
  job.rstd = &context.output(1);
  job.eps = rms_eps(attrs.eps, job.x->dtype);
  run_norm<false>(context, job, attrs.normalized_shape);
}

}  // namespace

void register_row_norm_cuda() {
  layer_norm_op.set_kernel(DeviceType::cuda, layer_norm_kernel);
  rms_norm_op.set_kernel(DeviceType::cuda, rms_norm_kernel);
}

}  // namespace tensora::cuda
