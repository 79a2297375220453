#pragma once

#include "tensora/core/tensor.h"
#include "tensora/ops/loss/reduction.h"

namespace tensora {

/// Of scores (N, C) or (C), and class numbers of the same shape that end before the first -1: the
/// sum of max(0, 1 - score[target] + score[other]) over all targets and all classes that are none,
/// divided by C.
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              Reduction reduction = Reduction::mean);

}  // namespace tensora
