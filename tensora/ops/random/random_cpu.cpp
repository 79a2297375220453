#include <atomic>

#include "tensora/backend/cpu/convert.h"
#include "tensora/ops/random/random_tile.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class Distribution>
void floating_kernel(const KernelContext& context, const Distribution& distribution) {
  const View& out = context.output();
  if (out.dtype == kFloat64)
    run_generate(out, random_tile<Distribution, double>, kFloat64, &distribution);
  else
    run_generate(out, random_tile<Distribution, float>, kFloat32, &distribution);
}

void bernoulli_kernel(const KernelContext& context, const Bernoulli& bernoulli) {
  run_generate(context.output(), random_tile<Bernoulli, float>, kFloat32, &bernoulli);
}

void random_kernel(const KernelContext& context, const RandomInteger& integers) {
  run_generate(context.output(), random_tile<RandomInteger, long long>, kInt64, &integers);
}

// One probability per element; `V` is float or double, as the probabilities are.
template <class V>
struct Threshold {
  uint64_t seed, offset;
  const View* p;  // broadcast to the output
  LoadFn load;
  std::atomic<bool>* failed;
};

template <class V>
void uniform_tile(uint64_t seed, uint64_t offset, int64_t start, int64_t n, V* to) {
  const Uniform uniform{.seed = seed, .offset = offset};
  random_tile<Uniform, V>(&uniform, start, n, to);
}

template <class V>
void threshold_tile(const void* functor, int64_t start, int64_t n, void* to) {
  const auto& job = *static_cast<const Threshold<V>*>(functor);
  V uniform[kGenerateTile], p[kGenerateTile];
  uniform_tile(job.seed, job.offset, start, n, uniform);
  gather_rows(*job.p, job.load, start, n, p, sizeof(V));
  float* const target = static_cast<float*>(to);
  bool valid = true;
  for (int64_t j = 0; j < n; ++j) {
    target[j] = uniform[j] < p[j] ? 1.f : 0.f;
    valid &= p[j] >= 0 && p[j] <= 1;
  }
  if (!valid) job.failed->store(true, std::memory_order_relaxed);
}

template <class V>
void run_threshold(const KernelContext& context, const RandomAttrs& attrs) {
  const View& out = context.output();
  View p = context.input(1);
  p.strides = broadcast_strides(p.sizes, p.strides, out.sizes);
  p.sizes = out.sizes;
  p.update();
  std::atomic<bool> failed = false;
  const Threshold<V> job{attrs.seed, attrs.offset, &p, load_fn<V>(p.dtype), &failed};
  run_generate(out, threshold_tile<V>, kFloat32, &job);
  check(!failed, "bernoulli: expected probabilities between 0 and 1");
}

void bernoulli_tensor_kernel(const KernelContext& context, const RandomAttrs& attrs) {
  if (context.input(1).dtype == kFloat64)
    run_threshold<double>(context, attrs);
  else
    run_threshold<float>(context, attrs);
}

}  // namespace

void register_random_cpu() {
  uniform_op.set_kernel(DeviceType::cpu, floating_kernel<Uniform>);
  normal_op.set_kernel(DeviceType::cpu, floating_kernel<Normal>);
  exponential_op.set_kernel(DeviceType::cpu, floating_kernel<Exponential>);
  bernoulli_op.set_kernel(DeviceType::cpu, bernoulli_kernel);
  bernoulli_tensor_op.set_kernel(DeviceType::cpu, bernoulli_tensor_kernel);
  random_op.set_kernel(DeviceType::cpu, random_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
