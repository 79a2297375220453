#pragma once

// Internal header: the gradient of ops that choose elements along a dim.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Zeros of shape `sizes` with `grad` at the positions `indices` along `dim`, no position twice. A
/// 0-dim tensor counts as a line of one element.
Tensor put_chosen(const Tensor& grad, const Tensor& indices, const Shape& sizes, int64_t dim);

/// The first two outputs of an op.
std::tuple<Tensor, Tensor> pair_of(Tensors&& outputs);

}  // namespace tensora
