#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/ops/loss/class_logits.cuh"

namespace tensora::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    nll_forward(const __grid_constant__ ClassForwardParams params) {
  using C = accumulate_t<T>;
  const long long row = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= params.logits.rows) return;
  const long long y = params.logits.place(row);
  const C factor = y < 0 ? C(0) : params.terms.of<C>(y);
  const C logit =
      y < 0 ? C(0) : load_value<C>(params.logits.row<T>(row)[y * params.logits.class_step]);
  static_cast<C*>(params.loss)[row] = y < 0 ? C(0) : -factor * logit;
  static_cast<C*>(params.weight)[row] = factor;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    nll_backward(const __grid_constant__ ClassBackwardParams params) {
  using C = accumulate_t<T>;
  const long long row = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= params.logits.rows) return;
  const long long y = params.logits.place(row);
  if (y < 0) return;
  params.out_row<T>(row)[y * params.out_class_step] =
      store_value<T>(-params.terms.of<C>(y) * params.grad_of<C>(row));
}

void nll_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  ClassForwardParams params{};
  params.logits = logits_of(context, context.input(0), context.input(1), attrs);
  params.terms = terms_of(context, 2, attrs);
  params.loss = context.output(0).data;
  params.weight = context.output(1).data;
  visit_floating(context.input(0).dtype, context.op, [&]<class T>() {
    Launch{context.op, context.device.index}(
        nll_forward<T>, blocks_for(params.logits.rows, kThreads), dim3(kThreads), params);
  });
}

void nll_backward_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  fill_elements(context.op, context.output(), 0);
  const ClassBackwardParams params = backward_params(context, attrs, 3);
  visit_floating(context.output().dtype, context.op, [&]<class T>() {
    Launch{context.op, context.device.index}(
        nll_backward<T>, blocks_for(params.logits.rows, kThreads), dim3(kThreads), params);
  });
}

}  // namespace

void register_nll_loss_cuda() {
  nll_op.set_kernel(DeviceType::cuda, nll_kernel);
  nll_backward_op.set_kernel(DeviceType::cuda, nll_backward_kernel);
}

}  // namespace tensora::cuda
