#pragma once

#include "tensora/core/tensor.h"
#include "tensora/ops/loss/reduction.h"

// Losses that compare input and target element by element, broadcast where the shapes differ unless
// a loss says otherwise. Half types are computed in float32.

namespace tensora {

/// The square of the difference.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// The magnitude of the difference.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// d * d / (2 beta) where the magnitude d of the difference is below `beta`, else d - beta / 2.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::mean, double beta = 1);
/// d * d / 2 up to `delta`, then delta * (d - delta / 2).
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                  double delta = 1);

/// Of probabilities and targets of one shape, times a `weight` that may be broadcast. An input
/// or target outside [0, 1] throws; on CUDA at the next synchronisation.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                            Reduction reduction = Reduction::mean);
/// The same of logits, without overflow; `pos_weight` multiplies the part of positive targets.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight = {},
                                        Reduction reduction = Reduction::mean,
                                        const Tensor& pos_weight = {});
/// target * (log(target) - input); with `log_target` the target is a logarithm, as the input is.
/// "batchmean" divides the sum by the size of dim 0.
Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
              bool log_target = false);
/// exp(input) - target * input, or input - target * log(input + eps); `full` adds Stirling's
/// approximation of log(target!).
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true,
                        bool full = false, double eps = 1e-8,
                        Reduction reduction = Reduction::mean);
/// (log(var) + (input - target)² / var) / 2 with variances of at least `eps`; `full` adds
/// log(2 pi) / 2. `var` is of the input's shape, or lacks its last dim, or has 1 for one dim.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         bool full = false, double eps = 1e-6,
                         Reduction reduction = Reduction::mean);
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, double var, bool full = false,
                         double eps = 1e-6, Reduction reduction = Reduction::mean);
/// The input where the target is 1, max(0, margin - input) where it is -1.
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1,
                            Reduction reduction = Reduction::mean);
/// max(0, margin - target * (input1 - input2)) of tensors of one rank.
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin = 0, Reduction reduction = Reduction::mean);
/// log(1 + exp(-target * input)), without overflow: where PyTorch has infinity, a finite number.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        Reduction reduction = Reduction::mean);

}  // namespace tensora
