#pragma once

#include "tensora/core/tensor.h"
#include "tensora/ops/loss/reduction.h"

namespace tensora {

/// The cross-entropy of softmax(input) over dim 1 (dim 0 of a vector). `target` holds class
/// numbers, in the input's shape without the classes, or probabilities in the input's shape.
/// `weight` is a factor per class, and a "mean" is weighted by it. Targets that equal
/// `ignore_index` do not count. `label_smoothing` is the share of a target that is spread evenly
/// over all classes.
Tensor cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                     int64_t ignore_index = -100, Reduction reduction = Reduction::mean,
                     double label_smoothing = 0);
/// The same of logarithms of probabilities, for class numbers: -weight[target] * input[target].
Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                int64_t ignore_index = -100, Reduction reduction = Reduction::mean);

}  // namespace tensora
