#pragma once

// Internal header: the ops behind multilabel_margin_loss.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (input [N, C], target [N, C]) -> for each row the sum of max(0, 1 - x[y] + x[i]) over its target
/// classes y, which end before the first -1, and over all other classes i, divided by C; float32,
/// or float64 for float64.
extern OpDef<NoAttrs> multilabel_margin_op;
/// (grad [N], input, target) -> the gradient of input.
extern OpDef<NoAttrs> multilabel_margin_backward_op;

}  // namespace tensora
