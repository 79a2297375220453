#include "tensora/backend/cuda/generate.cuh"
#include "tensora/ops/random/random.h"

namespace tensora::cuda {
namespace {

constexpr int kFloats = kValuesPerCounter<float>, kDoubles = kValuesPerCounter<double>,
              kIntegers = kValuesPerCounter<long long>;

template <class Distribution>
void floating_kernel(const KernelContext& context, const Distribution& distribution) {
  if (context.output().dtype == kFloat64)
    generate_random<double, kDoubles>(context, distribution);
  else
    generate_random<float, kFloats>(context, distribution);
}

void bernoulli_kernel(const KernelContext& context, const Bernoulli& bernoulli) {
  generate_random<float, kFloats>(context, bernoulli);
}

void random_kernel_of_integers(const KernelContext& context, const RandomInteger& integers) {
  generate_random<long long, kIntegers>(context, integers);
}

}  // namespace

void register_random_cuda() {
  uniform_op.set_kernel(DeviceType::cuda, floating_kernel<Uniform>);
  normal_op.set_kernel(DeviceType::cuda, floating_kernel<Normal>);
  exponential_op.set_kernel(DeviceType::cuda, floating_kernel<Exponential>);
  bernoulli_op.set_kernel(DeviceType::cuda, bernoulli_kernel);
  random_op.set_kernel(DeviceType::cuda, random_kernel_of_integers);
}

}  // namespace tensora::cuda
