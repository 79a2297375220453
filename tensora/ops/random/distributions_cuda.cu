#include "tensora/backend/cuda/loops/generate.cuh"
#include "tensora/ops/random/distributions.h"

namespace tensora::cuda {
namespace {

template <class Distribution>
void kernel(const KernelContext& context, const Distribution& distribution) {
  const DType dtype = context.output().dtype;
  if (dtype == kFloat64 || is_integral(dtype))
    generate_random<double, kValuesPerCounter<double>>(context, distribution);
  else
    generate_random<float, kValuesPerCounter<float>>(context, distribution);
}

}  // namespace

void register_distributions_cuda() {
  cauchy_op.set_kernel(DeviceType::cuda, kernel<Cauchy>);
  log_normal_op.set_kernel(DeviceType::cuda, kernel<LogNormal>);
  geometric_op.set_kernel(DeviceType::cuda, kernel<Geometric>);
}

}  // namespace tensora::cuda
