#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// The rows of `weight` that `input`, of any shape, names; the result has one dim more.
/// `padding_idx`, which may count from the end, names a row that gets no gradient. With `max_norm`
/// the rows that are used are first scaled down, in place, to a p-norm of at most that, with p =
/// `norm_type`. `scale_grad_by_freq` divides a row's gradient by how often the row occurs. With
/// `sparse` the gradient has only the rows that were used: docs/sparse.md.
Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx = {},
                 std::optional<double> max_norm = {}, double norm_type = 2,
                 bool scale_grad_by_freq = false, bool sparse = false);

/// Scales the rows of `weight` that occur in `indices` down to a norm of at most `max_norm`.
const Tensor& embedding_renorm_(const Tensor& weight, const Tensor& indices, double max_norm,
                                double norm_type = 2);

}  // namespace tensora
