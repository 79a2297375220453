#pragma once

// Internal header: the pointwise part of one step of a recurrent cell. All arrays are matrices with
// a row for each sequence; gates lie side by side in blocks of the hidden size.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct StepAttrs {
  bool keep = true;  // also return what the gradient needs
};
constexpr auto describe(std::type_identity<StepAttrs>) {
  return fields(field("keep", &StepAttrs::keep));
}
/// (gates [B 4H], cx [B H]) -> hidden state, cell, the gates' values [B 4H] if `keep`.
extern OpDef<StepAttrs> lstm_step_op;
/// (grad_h?, grad_c?, values, cx, cy) -> the gradients of gates and cx.
extern OpDef<NoAttrs> lstm_step_backward_op;
/// (gates_x [B 3H], gates_h [B 3H], hx [B H]) -> hidden state, and [B 4H] if `keep`: the gates'
/// values and the hidden state's part of the third.
extern OpDef<StepAttrs> gru_step_op;
/// (grad_h, values, hx) -> the gradients of gates_x, gates_h and hx.
extern OpDef<NoAttrs> gru_step_backward_op;

/// What the gradients of the kept values add to those of the sums; for gradients of gradients.
Tensor lstm_values_vjp(const Tensor& grad_values, const Tensor& values);
/// For gates_x and gates_h.
std::array<Tensor, 2> gru_values_vjp(const Tensor& grad_values, const Tensor& values);

}  // namespace tensora
