#pragma once

#include <vector>

#include "tensora/core/tensor.h"
#include "tensora/ops/loss/reduction.h"

namespace tensora {

/// The negative logarithm of the probability that a sequence of outputs, whose logarithms are
/// `log_probs` (T, N, C) or (T, C), is read as its target when repetitions and blanks are dropped.
/// `targets` are class numbers (N, S), or all targets one after the other. The "mean" divides each
/// loss by the length of its target first. `zero_infinity` makes the loss of targets that cannot be
/// aligned 0, and their gradient. Lengths that are tensors are read on the host.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, int64_t blank = 0,
                Reduction reduction = Reduction::mean, bool zero_infinity = false);
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank = 0,
                Reduction reduction = Reduction::mean, bool zero_infinity = false);

}  // namespace tensora
