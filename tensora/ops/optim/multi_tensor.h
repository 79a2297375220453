#pragma once

#include <span>

#include "tensora/core/tensor.h"

// Optimizer steps and gradient clipping over a whole list of tensors: on CUDA in one launch, or a
// few for very long lists, whatever the tensors' sizes, dtypes and layouts, and without waiting for
// the device. Tensors that belong together must be dense and laid out alike; a gradient of another
// layout is copied first.

namespace tensora {

struct FusedAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  int64_t step = 1;  // counted from 1; unused where `state_step` is given
};
struct FusedSgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  bool is_first_step = false;  // the momentum starts as the gradient
};
/// What a step needs beside the parameters and their states; all of it optional.
struct FusedExtras {
  std::span<const Tensor> masters = {};  // float32 copies of the parameters: these are stepped, and
                                         // the parameters are what they round to
  Tensor state_step = {};                // the number of the step: one float32 number
  Tensor grad_scale = {};                // divides the gradients: one float32 number
  Tensor found_inf = {};                 // not 0: nothing is changed; one float32 number
};

/// One step of Adam, and of AdamW, whose decay acts on the parameters. `max_exp_avg_sqs` is read
/// and written with amsgrad alone, and may be empty otherwise. States may be wider than parameters.
void fused_adam_(std::span<const Tensor> params, std::span<const Tensor> grads,
                 std::span<const Tensor> exp_avgs, std::span<const Tensor> exp_avg_sqs,
                 std::span<const Tensor> max_exp_avg_sqs, const FusedAdamOptions& options,
                 const FusedExtras& extras = {});
void fused_adamw_(std::span<const Tensor> params, std::span<const Tensor> grads,
                  std::span<const Tensor> exp_avgs, std::span<const Tensor> exp_avg_sqs,
                  std::span<const Tensor> max_exp_avg_sqs, const FusedAdamOptions& options,
                  const FusedExtras& extras = {});
/// One step of stochastic gradient descent; `momentum_buffers` is empty without momentum.
void fused_sgd_(std::span<const Tensor> params, std::span<const Tensor> grads,
                std::span<const Tensor> momentum_buffers, const FusedSgdOptions& options,
                const FusedExtras& extras = {});

/// The p-norm of all elements of all tensors.
Tensor get_total_norm(std::span<const Tensor> tensors, double norm_type = 2,
                      bool error_if_nonfinite = false);
/// Scales the gradients of `parameters`, in place, so that the norm of all of them together is at
/// most `max_norm`, and returns what it was. With `error_if_nonfinite`, which waits for the device,
/// an infinite or NaN norm throws.
Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);
/// Keeps every element of the gradients within ±clip_value, in place.
void clip_grad_value_(std::span<const Tensor> parameters, double clip_value);

}  // namespace tensora
