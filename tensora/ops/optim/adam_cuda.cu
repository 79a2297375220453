#include <cmath>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/optim/adam.h"

namespace tensora::cuda {
namespace {

// Everything that does not depend on the element, in the type of the loop.
template <class C>
struct Rates {
  C beta1, beta2, step_size, inverse_root_correction, eps, coupled_decay, decoupled_factor;

  explicit Rates(const AdamAttrs& a)
      : beta1(C(a.beta1)),
        beta2(C(a.beta2)),
        step_size(C(a.lr / (1 - std::pow(a.beta1, double(a.step))))),
        inverse_root_correction(C(1 / std::sqrt(1 - std::pow(a.beta2, double(a.step))))),
        eps(C(a.eps)),
        coupled_decay(C(a.decoupled ? 0 : a.weight_decay)),
        decoupled_factor(C(a.decoupled ? 1 - a.lr * a.weight_decay : 1)) {}
};

// The step's number on the device, and what the corrections follow from; null: they are known.
struct Clock {
  const float* step;
  double lr, beta1, beta2;
};

template <class T>
struct Arrays {
  const T *param, *average, *square, *grad;
  T *new_param, *new_average, *new_square;
};

// All arrays are dense and have the same strides, so elements are processed in memory order.
template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    adam_step(const Rates<C> rates, const Clock clock, const Arrays<T> arrays, int64_t count) {
  C step_size = rates.step_size, inverse_root_correction = rates.inverse_root_correction;
  if (clock.step) {
    __shared__ C corrected[2];  // powers in double are expensive: once per block
    if (threadIdx.x == 0) {
      const double step = *clock.step;
      corrected[0] = C(clock.lr / (1 - pow(clock.beta1, step)));
      corrected[1] = C(1 / sqrt(1 - pow(clock.beta2, step)));
    }
    __syncthreads();
    step_size = corrected[0];
    inverse_root_correction = corrected[1];
  }
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const C param = load_value<C>(arrays.param[i]);
  const C g = load_value<C>(arrays.grad[i]) + rates.coupled_decay * param;
  const C m = rates.beta1 * load_value<C>(arrays.average[i]) + (1 - rates.beta1) * g;
  const C v = rates.beta2 * load_value<C>(arrays.square[i]) + (1 - rates.beta2) * g * g;
  arrays.new_average[i] = store_value<T>(m);
  arrays.new_square[i] = store_value<T>(v);
  const C root = sqrt(v) * inverse_root_correction + rates.eps;
  arrays.new_param[i] = store_value<T>(rates.decoupled_factor * param - step_size * m / root);
}

void adam_kernel(const KernelContext& context, const AdamAttrs& attrs) {
  const bool counted = context.in.size() > 4;
  check(
      counted || !current_capture(),
      "adam: a graph would repeat the step that was recorded; give the step as a tensor and count "
      "it within the graph");
  const int64_t count = context.output().numel;
  const Clock clock{counted ? context.input(4).as<const float>() : nullptr, attrs.lr, attrs.beta1,
                    attrs.beta2};
  visit_floating(context.output().dtype, "adam", [&]<class T>() {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto in = [&](size_t i) { return context.input(i).template as<const T>(); };
    const auto out = [&](size_t i) { return context.output(i).template as<T>(); };
    const Arrays<T> arrays{in(0), in(1), in(2), in(3), out(0), out(1), out(2)};
    const dim3 blocks(static_cast<unsigned>((count + kThreads - 1) / kThreads));
    Launch{context.op, context.device.index}(adam_step<T, C>, blocks, dim3(kThreads),
                                             Rates<C>(attrs), clock, arrays, count);
  });
}

}  // namespace

void register_adam_cuda() { adam_op.set_kernel(DeviceType::cuda, adam_kernel); }

}  // namespace tensora::cuda
