// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <cmath>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/optim/adam.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kTile = 1024;
constexpr int64_t kGrain = 16 * 1024;

// Everything that does not depend on the element, in the type of the loop.
template <class C>
struct Rates {
  C beta1, beta2, step_size, inverse_root_correction, eps, coupled_decay, decoupled_factor;

  Rates(const AdamAttrs& a, double step_number)
      : beta1(C(a.beta1)),
        beta2(C(a.beta2)),
        step_size(C(a.lr / (1 - std::pow(a.beta1, step_number)))),
        inverse_root_correction(C(1 / std::sqrt(1 - std::pow(a.beta2, step_number)))),
        eps(C(a.eps)),
        coupled_decay(C(a.decoupled ? 0 : a.weight_decay)),
        decoupled_factor(C(a.decoupled ? 1 - a.lr * a.weight_decay : 1)) {}
};

template <class C>
void step(const Rates<C>& rates, int64_t n, C* param, C* average, C* square, const C* grad) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const C g = grad[i] + rates.coupled_decay * param[i];
    const C m = rates.beta1 * average[i] + (1 - rates.beta1) * g;
    const C v = rates.beta2 * square[i] + (1 - rates.beta2) * g * g;
    average[i] = m;
    square[i] = v;
    const C root = std::sqrt(v) * rates.inverse_root_correction + rates.eps;
    param[i] = rates.decoupled_factor * param[i] - rates.step_size * m / root;
  }
}

// Half types go through tiles of float.
template <class T, class C>
void step_tiled(const Rates<C>& rates, int64_t begin, int64_t end, T* const tensors[4]) {
  C tiles[4][kTile];
  for (int64_t at = begin; at < end; at += kTile) {
    const int64_t n = std::min(kTile, end - at);
    for (int k = 0; k < 4; ++k) load_tile<T, C>(tensors[k] + at, 1, n, tiles[k]);
    step(rates, n, tiles[0], tiles[1], tiles[2], tiles[3]);
    for (int k = 0; k < 3; ++k) store_tile<T, C>(tiles[k], tensors[k] + at, 1, n);
  }
}

// All tensors are dense and have the same strides, so elements are processed in memory order.
template <class T>
void run(const KernelContext& context, const AdamAttrs& attrs) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const bool counted = context.in.size() > 4;
  const Rates<C> rates(
      attrs, counted ? double{*context.input(4).as<float>()} : static_cast<double>(attrs.step));
  const View* const outputs[] = {context.out[0], context.out[1], context.out[2]};
  // Out of place the results start as copies of the inputs.
  for (size_t i = 0; i < 3; ++i) {
    if (outputs[i]->data != context.in[i]->data)
      __builtin_memcpy(outputs[i]->data, context.in[i]->data, outputs[i]->bytes());
  }
  T* const tensors[4] = {outputs[0]->as<T>(), outputs[1]->as<T>(), outputs[2]->as<T>(),
                         context.input(3).as<T>()};
  parallel_for(outputs[0]->numel, kGrain, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, C>)
      step(rates, end - begin, tensors[0] + begin, tensors[1] + begin, tensors[2] + begin,
           tensors[3] + begin);
    else
      step_tiled<T, C>(rates, begin, end, tensors);
  });
}

void adam_kernel(const KernelContext& context, const AdamAttrs& attrs) {
  visit_floating(context.output().dtype, "adam", [&]<class T>() { run<T>(context, attrs); });
}

}  // namespace

void register_adam_cpu() { adam_op.set_kernel(DeviceType::cpu, adam_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
