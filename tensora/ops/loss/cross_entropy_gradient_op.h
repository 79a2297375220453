#pragma once

// Internal header: loss and gradient at once, where nobody keeps the logits.

#include "tensora/ops/loss/cross_entropy_op.h"

namespace tensora {

/// (input [N, C], losses [N], target [N], factor []) -> the gradient of factor * sum(losses), and
/// the losses, of which only the shape is read; losses and factor are float32, or float64 for
/// float64. Meant to be run in place, under no_grad: the gradient takes the memory of the logits,
/// the largest array of a language model.
extern OpDef<CrossEntropyAttrs> cross_entropy_gradient_op;

}  // namespace tensora
