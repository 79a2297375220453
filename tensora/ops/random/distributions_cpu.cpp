#include "tensora/ops/random/distributions.h"

#include "tensora/ops/random/random_tile.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class Distribution>
void kernel(const KernelContext& context, const Distribution& distribution) {
  const View& out = context.output();
  if (out.dtype == kFloat64 || is_integral(out.dtype))
    run_generate(out, random_tile<Distribution, double>, kFloat64, &distribution);
  else
    run_generate(out, random_tile<Distribution, float>, kFloat32, &distribution);
}

}  // namespace

void register_distributions_cpu() {
  cauchy_op.set_kernel(DeviceType::cpu, kernel<Cauchy>);
  log_normal_op.set_kernel(DeviceType::cpu, kernel<LogNormal>);
  geometric_op.set_kernel(DeviceType::cpu, kernel<Geometric>);
}

}  // namespace tensora::cpu::TENSORA_ISA
