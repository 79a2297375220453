#pragma once

// Internal header: the gradients of linear's parameters, which a GPU library computes in one pass
// over the gradient of the result.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (grad: m n, input: m k) -> (grad^T @ input: n k, the sums of grad over its rows: n)
extern OpDef<NoAttrs> linear_gradients_op;

}  // namespace tensora
