#include "tensora/backend/cuda/loops/generate.cuh"
#include "tensora/backend/cuda/loops/indexing.cuh"
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

struct ThresholdParams {
  Uniform uniform;
  const ReplayRandom* replay;
  const char* p;
  char* out;
  int64_t count;
  DType p_dtype, out_dtype;
  int p_bytes, out_bytes;  // per element: a kernel cannot read the table of dtypes
  const char *op, *expectation;
  Fault* fault;
};

// A thread per counter, as in random_kernel.
template <class V>
__global__ void __launch_bounds__(kThreads)
    compare_uniform(const __grid_constant__ ThresholdParams params) {
  constexpr int kPerCounter = kValuesPerCounter<V>;
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t first =
      thread / kPhiloxLanes * (kPhiloxLanes * kPerCounter) + thread % kPhiloxLanes;
  if (first >= params.count) return;
  const PhiloxWords words = words_of(params.uniform, params.replay, thread);
  V values[kPerCounter];
  params.uniform.values(words.word, values);
#pragma unroll
  for (int k = 0; k < kPerCounter; ++k) {
    const int64_t i = first + k * kPhiloxLanes;
    if (i >= params.count) continue;
    const V p = load_any<V>(params.p + i * params.p_bytes, params.p_dtype);
    if (!(p >= 0 && p <= 1)) note_fault(params.fault, params.op, params.expectation);
    store_any<float>(params.out + i * params.out_bytes, params.out_dtype,
                     values[k] < p ? 1.f : 0.f);
  }
}

void bernoulli_tensor_kernel(const KernelContext& context, const RandomAttrs& attrs) {
  const int device = context.device.index;
  View p = context.input(1);
  generate(context, [&](const View& out) {
    std::optional<Scratch> scratch;
    if (!p.contiguous || p.sizes != out.sizes || p.device != out.device) {  // broadcast
      View whole = out;
      whole.dtype = p.dtype;
      scratch.emplace(device, whole.bytes());
      whole.data = scratch->data();
      copy_elements(context.op, p, whole);
      p = whole;
    }
    ThresholdParams params{};
    params.uniform = Uniform{.seed = attrs.seed, .offset = attrs.offset};
    params.replay = replay_of(context, params.uniform);
    params.p = p.as<const char>();
    params.out = out.as<char>();
    params.count = out.numel;
    params.p_dtype = p.dtype;
    params.p_bytes = static_cast<int>(element_size(p.dtype));
    params.out_bytes = static_cast<int>(element_size(out.dtype));
    params.out_dtype = out.dtype;
    params.op = "bernoulli";
    params.expectation = "expected probabilities between 0 and 1";
    params.fault = device_fault(device);
    const bool wide = p.dtype == kFloat64;
    const auto counters =
        static_cast<int64_t>(philox_counters(out.numel, wide ? kDoubles : kFloats));
    const dim3 blocks(static_cast<unsigned>((counters + kThreads - 1) / kThreads));
    Launch{context.op, device}(wide ? compare_uniform<double> : compare_uniform<float>, blocks,
                               dim3(kThreads), params);
  });
}

}  // namespace

void register_random_cuda() {
  uniform_op.set_kernel(DeviceType::cuda, floating_kernel<Uniform>);
  normal_op.set_kernel(DeviceType::cuda, floating_kernel<Normal>);
  exponential_op.set_kernel(DeviceType::cuda, floating_kernel<Exponential>);
  bernoulli_op.set_kernel(DeviceType::cuda, bernoulli_kernel);
  bernoulli_tensor_op.set_kernel(DeviceType::cuda, bernoulli_tensor_kernel);
  random_op.set_kernel(DeviceType::cuda, random_kernel_of_integers);
}

}  // namespace tensora::cuda
