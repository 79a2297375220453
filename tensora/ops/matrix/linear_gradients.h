#pragma once

// Internal header: the gradients of linear's parameters, which a GPU library computes in one pass
// over the gradient of the result.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (grad: m n, input: m k) -> (grad^T @ input: n k, the sums of grad over its rows: n)
extern OpDef<NoAttrs> linear_gradients_op;

/// The gradient of the second factor b of a product a @ b, from that of the product, in the layout
/// of b if that is given: linear's factor is a transposed weight, whose gradient needs no copy
/// then.
Tensor second_factor_gradient(const Tensor& a, const Tensor& b, const Tensor& grad);

}  // namespace tensora
