#pragma once

#include "tensora/core/tensor.h"
#include "tensora/ops/loss/reduction.h"

// Losses that compare rows: vectors with each other, or the scores of classes.

namespace tensora {

/// Of vectors along the last dim of (N, D) or (D): 1 - cos where the target is 1, max(0, cos -
/// margin) where it is -1. `target` has the inputs' shape without the last dim.
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin = 0, Reduction reduction = Reduction::mean);
/// max(0, |anchor - positive| - |anchor - negative| + margin) with p-norms over the last dim, of
/// differences to which `eps` is added; `swap` takes |positive - negative| where that is smaller.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                           Reduction reduction = Reduction::mean);
/// Of scores (N, C) or (C) and a class number for each row: the mean over the classes of
/// weight[target] * max(0, margin - score[target] + score)^p without the target's own; p is 1 or 2.
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, double p = 1, double margin = 1,
                         const Tensor& weight = {}, Reduction reduction = Reduction::mean);
/// The mean over the classes, the last dim, of binary_cross_entropy_with_logits.
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean);

}  // namespace tensora
