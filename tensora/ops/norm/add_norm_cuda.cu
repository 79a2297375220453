#include "tensora/ops/norm/row_norm_kernels.cuh"

namespace tensora::cuda {
namespace {

template <bool centre>
void add_norm_kernel(const KernelContext& context, const AddNormAttrs& attrs) {
  NormJob job{};
  job.x = &context.input(0);
  job.residual = &context.input(1);
  job.weight = optional_input(context, 2);
  job.bias = centre ? optional_input(context, 3) : nullptr;
  job.input_bias = optional_input(context, centre ? 4 : 3);
  job.y = &context.output(0);
  job.sum = &context.output(1);
  job.mean = centre ? &context.output(2) : nullptr;
  job.rstd = &context.output(centre ? 3 : 2);
  job.eps = centre ? attrs.eps.value_or(1e-5) : rms_eps(attrs.eps, job.residual->dtype);
  job.dropping = dropping_of(context, attrs.p, attrs.seed, attrs.offset);
  run_norm<true>(context, job, attrs.normalized_shape);
}

}  // namespace

void register_add_norm_cuda() {
  add_layer_norm_op.set_kernel(DeviceType::cuda, add_norm_kernel<true>);
  add_rms_norm_op.set_kernel(DeviceType::cuda, add_norm_kernel<false>);
}

}  // namespace tensora::cuda
