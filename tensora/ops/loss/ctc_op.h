#pragma once

// Internal header: the ops behind ctc_loss.

#include "tensora/dispatch/op_def.h"

namespace tensora {

// Note [Alignments]
// A target of S labels is read with a blank before, between and after its labels: L = 2 S + 1
// places, of which the odd ones are labels. An alignment is a path through the places that stays,
// moves to the next one, or skips a blank between two different labels. alpha[t][s] is the log of
// the probability of all paths that are at place s at time t, beta that of all ways on from there;
// both include the output at time t.

struct CtcAttrs {
  std::vector<int64_t> input_lengths, target_lengths;  // one for each sequence
  int64_t blank = 0;
  bool zero_infinity = false;
};
constexpr auto describe(std::type_identity<CtcAttrs>) {
  using A = CtcAttrs;
  return fields(field("input_lengths", &A::input_lengths),
                field("target_lengths", &A::target_lengths), field("blank", &A::blank),
                field("zero_infinity", &A::zero_infinity));
}
/// (log_probs [T, N, C], targets [N, S]) -> the losses [N] and alpha [N, T, 2 S + 1].
extern OpDef<CtcAttrs> ctc_op;
/// (grad [N], log_probs, targets, losses, alpha) -> the gradient of log_probs, as PyTorch defines
/// it: for logarithms that a log_softmax has normalised, whose own gradient it presupposes.
extern OpDef<CtcAttrs> ctc_backward_op;

}  // namespace tensora
