#include <cmath>

#include "tensora/backend/cuda/elements.cuh"
#include "tensora/backend/cuda/runtime.h"
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

template <class T>
struct Arrays {
  const T *param, *average, *square, *grad;
  T *new_param, *new_average, *new_square;
};

template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    adam_step(const Rates<C> rates, const Arrays<T> arrays, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const C param = load_value<C>(arrays.param[i]);
  const C g = load_value<C>(arrays.grad[i]) + rates.coupled_decay * param;
  const C m = rates.beta1 * load_value<C>(arrays.average[i]) + (1 - rates.beta1) * g;
  const C v = rates.beta2 * load_value<C>(arrays.square[i]) + (1 - rates.beta2) * g * g;
  arrays.new_average[i] = store_value<T>(m);
  arrays.new_square[i] = store_value<T>(v);
  const C root = sqrt(v) * rates.inverse_root_correction + rates.eps;
  arrays.new_param[i] = store_value<T>(rates.decoupled_factor * param - rates.step_size * m / root);
}

void adam_kernel(const KernelContext& context, const AdamAttrs& attrs) {
  for (const View* view : context.in)
    check(view->contiguous, "adam: parameters, moments and gradients must be contiguous");
  for (const View* view : context.out)
    check(view->contiguous, "adam: parameters and moments must be contiguous");
  const int64_t count = context.output().numel;
  visit_floating(context.output().dtype, "adam", [&]<class T>() {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto in = [&](size_t i) { return context.input(i).template as<const T>(); };
    const auto out = [&](size_t i) { return context.output(i).template as<T>(); };
    const Arrays<T> arrays{in(0), in(1), in(2), in(3), out(0), out(1), out(2)};
    const dim3 blocks(static_cast<unsigned>((count + kThreads - 1) / kThreads));
    Launch{context.op, context.device.index}(adam_step<T, C>, blocks, dim3(kThreads),
                                             Rates<C>(attrs), arrays, count);
  });
}

}  // namespace

void register_adam_cuda() { adam_op.set_kernel(DeviceType::cuda, adam_kernel); }

}  // namespace tensora::cuda
