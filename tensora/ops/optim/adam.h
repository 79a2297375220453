#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct AdamAttrs {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t step = 1;        // counted from 1; unused where the step is a tensor
  bool decoupled = false;  // AdamW: the decay acts on the parameter, not on the gradient
};
/// (param, exp_avg, exp_avg_sq, grad[, step]) -> the new (param, exp_avg, exp_avg_sq).
extern OpDef<AdamAttrs> adam_op;

/// One step of Adam or AdamW in a single pass over memory; writes the first three tensors, which
/// must be dense and have the same strides. A gradient of another layout is copied first.
void adam_(const Tensor& param, const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& grad,
           const AdamAttrs& attrs);
/// The same with the number of the step in a float32 tensor of one element on the parameter's
/// device, as a recorded graph needs it.
void adam_(const Tensor& param, const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& grad,
           const Tensor& step, const AdamAttrs& attrs);

}  // namespace tensora
