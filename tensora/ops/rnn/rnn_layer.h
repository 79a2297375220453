#pragma once

// Internal header: one direction of one layer over all steps.

#include <array>

#include "tensora/dispatch/op_def.h"

namespace tensora {

namespace rnn {
enum class Kind : uint8_t { lstm, gru, tanh, relu };
constexpr std::array<std::string_view, 4> names_of(std::type_identity<Kind>) {
  return {"lstm", "gru", "tanh", "relu"};
}
}  // namespace rnn

/// batch_sizes[t] sequences take part in step t, the first ones; the numbers do not grow. The rows
/// of all steps follow each other.
struct RnnLayerAttrs {
  rnn::Kind kind = rnn::Kind::lstm;
  std::vector<int64_t> batch_sizes = {};
  bool reverse = false;
  bool keep = true;  // also return what the gradient needs
};
constexpr auto describe(std::type_identity<RnnLayerAttrs>) {
  using A = RnnLayerAttrs;
  return fields(field("kind", &A::kind), field("batch_sizes", &A::batch_sizes),
                field("reverse", &A::reverse), field("keep", &A::keep));
}
/// (gates, hx, w_hh, cx?, b_hh?, w_hr?) -> y, h_n; lstm: c_n; if `keep`, lstm and gru: the values
/// of the gates, lstm: the cells. `gates` are the products with the input, with both biases; for
/// gru with that of the input alone, and b_hh is given.
extern OpDef<RnnLayerAttrs> rnn_layer_op;

/// The same for an LSTM without projection in float32 whose sequences have one length, of at least
/// one hidden unit; (gates, hx, w_hh, cx) are contiguous.
extern OpDef<RnnLayerAttrs> lstm_layer_op;
/// (grad_y?, grad_h?, grad_c?, w_hh, values, cells, cx) -> the gradients of gates, hx and cx;
/// grad_h and grad_c are those of the last states. All are contiguous.
extern OpDef<RnnLayerAttrs> lstm_layer_backward_op;

}  // namespace tensora
