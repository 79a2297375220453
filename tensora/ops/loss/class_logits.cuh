#pragma once

// Internal header: what the CUDA kernels of cross_entropy and nll_loss share.

#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/kernel.h"
#include "tensora/ops/loss/cross_entropy_op.h"

namespace tensora::cuda {

// Logits [N, C, I] and class numbers [N, I]; strides in elements.
struct ClassLogits {
  const char* x;
  long long rows, classes, inner;
  long long batch_step, class_step, inner_step;
  const char* target;
  long long target_batch_step, target_inner_step;
  bool long_target;
  long long ignore_index;
  const char* op;
  Fault* fault;

  // -1 where ignored, or wrong.
  __device__ long long place(long long row) const {
    const long long at = row / inner * target_batch_step + row % inner * target_inner_step;
    const long long y = long_target ? reinterpret_cast<const long long*>(target)[at]
                                    : reinterpret_cast<const int*>(target)[at];
    if (y == ignore_index) return -1;
    if (y >= 0 && y < classes) return y;
    note_fault(fault, op, nullptr, y, classes, 1);
    return -1;
  }
  template <class T>
  __device__ const T* row(long long number) const {
    return reinterpret_cast<const T*>(x) + number / inner * batch_step +
           number % inner * inner_step;
  }
};

struct ClassTerms {
  const void* weight;  // per class, or null
  long long weight_step;
  const void* total;  // the sum of the weights, or null
  double share;       // of the smoothed part

  template <class C>
  __device__ C of(long long c) const {
    return weight ? static_cast<const C*>(weight)[c * weight_step] : C(1);
  }
  template <class C>
  __device__ C sum(long long classes) const {
    return total ? *static_cast<const C*>(total) : C(classes);
  }
  template <class C>
  __device__ C even(long long classes) const {
    return C(share / static_cast<double>(classes));
  }
};

struct ClassForwardParams {
  ClassLogits logits;
  ClassTerms terms;
  void *loss, *weight, *largest, *log_sum;

  /// `dot` is the weighted sum of logit - base.
  template <class C>
  __device__ void store(long long row, long long y, C top, C log_of_sum, C logit, C base,
                        C dot) const {
    const C factor = y < 0 ? C(0) : terms.of<C>(y);
    C result = y < 0 ? C(0) : C(1 - terms.share) * factor * (log_of_sum + (top - logit));
    if (y >= 0 && terms.share > 0)
      result += terms.even<C>(logits.classes) *
                ((log_of_sum + (top - base)) * terms.sum<C>(logits.classes) - dot);
    static_cast<C*>(loss)[row] = result;
    static_cast<C*>(weight)[row] = factor;
    static_cast<C*>(largest)[row] = top;
    static_cast<C*>(log_sum)[row] = log_of_sum;
  }
};

struct ClassBackwardParams {
  ClassLogits logits;
  ClassTerms terms;
  const void *grad, *largest, *log_sum;        // per row
  long long grad_batch_step, grad_inner_step;  // the gradient of a sum is repeated
  char* out;
  long long out_batch_step, out_class_step, out_inner_step;
  long long chunk;  // classes that a block takes

  template <class C>
  __device__ C grad_of(long long row) const {
    return static_cast<const C*>(
        grad)[row / logits.inner * grad_batch_step + row % logits.inner * grad_inner_step];
  }
  template <class T>
  __device__ T* out_row(long long row) const {
    return reinterpret_cast<T*>(out) + row / logits.inner * out_batch_step +
           row % logits.inner * out_inner_step;
  }
};

inline ClassLogits logits_of(const KernelContext& context, const View& x, const View& target,
                             const CrossEntropyAttrs& attrs) {
  ClassLogits logits{};
  logits.x = x.as<const char>();
  logits.classes = x.sizes[1];
  logits.inner = x.dim() == 3 ? x.sizes[2] : 1;
  logits.rows = x.sizes[0] * logits.inner;
  logits.batch_step = x.strides[0];
  logits.class_step = x.strides[1];
  logits.inner_step = x.dim() == 3 ? x.strides[2] : 0;
  logits.target = target.as<const char>();
  logits.target_batch_step = target.strides[0];
  logits.target_inner_step = target.dim() == 2 ? target.strides[1] : 0;
  logits.long_target = target.dtype == kInt64;
  logits.ignore_index = attrs.ignore_index;
  logits.op = context.op.data();
  logits.fault = device_fault(context.device.index);
  return logits;
}

inline ClassTerms terms_of(const KernelContext& context, size_t weight,
                           const CrossEntropyAttrs& attrs) {
  const auto optional = [&](size_t i) { return i < context.in.size() ? context.in[i] : nullptr; };
  ClassTerms terms{};
  if (const View* const view = optional(weight)) {
    terms.weight = view->data;
    terms.weight_step = view->strides[0];
  }
  if (const View* const view = optional(weight + 1)) terms.total = view->data;
  terms.share = attrs.label_smoothing;
  return terms;
}

inline dim3 blocks_for(long long rows, unsigned per_block, unsigned chunks = 1) {
  return dim3(static_cast<unsigned>((rows + per_block - 1) / per_block), chunks);
}

inline ClassBackwardParams backward_params(const KernelContext& context,
                                           const CrossEntropyAttrs& attrs, size_t weight) {
  ClassBackwardParams params{};
  params.logits = logits_of(context, context.input(1), context.input(2), attrs);
  params.terms = terms_of(context, weight, attrs);
  const View &grad = context.input(0), &out = context.output();
  params.grad = grad.data;
  params.grad_batch_step = grad.strides[0];
  params.grad_inner_step = grad.dim() == 2 ? grad.strides[1] : 0;
  params.out = out.as<char>();
  params.out_batch_step = out.strides[0];
  params.out_class_step = out.strides[1];
  params.out_inner_step = out.dim() == 3 ? out.strides[2] : 0;
  return params;
}

}  // namespace tensora::cuda
