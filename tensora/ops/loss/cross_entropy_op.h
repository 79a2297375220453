#pragma once

// Internal header: the ops behind cross_entropy and nll_loss.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct CrossEntropyAttrs {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};
constexpr auto describe(std::type_identity<CrossEntropyAttrs>) {
  using A = CrossEntropyAttrs;
  return fields(field("ignore_index", &A::ignore_index),
                field("label_smoothing", &A::label_smoothing));
}
/// Note [Cross-entropy without probabilities]
/// (input [N, C] or [N, C, I], target [N] or [N, I], weight? [C], weight_total? []) -> for each
/// target the loss, the weight it counts with in a mean, the largest logit, and the logarithm of
/// the sum of exponentials relative to it; float32, or float64 for float64. The two are kept apart:
/// in their sum, large logits would take the digits of the logarithm. The forward reads the logits
/// once, whatever C is, and keeps these four numbers per target; the backward reads them once more
/// and writes the gradient, softmax(input) - target. Probabilities are never in memory.
extern OpDef<CrossEntropyAttrs> cross_entropy_op;
/// (grad [N, I], input, target, largest [N, I], log_sum [N, I], weight?, weight_total?) -> the
/// gradient of input.
extern OpDef<CrossEntropyAttrs> cross_entropy_backward_op;
/// (input, target, weight?) -> -weight[target] * input[target], and that weight.
extern OpDef<CrossEntropyAttrs> nll_op;
/// (grad, input, target, weight?) -> the gradient of input, of which only the shape is read.
extern OpDef<CrossEntropyAttrs> nll_backward_op;

}  // namespace tensora
