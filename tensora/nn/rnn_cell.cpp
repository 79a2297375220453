#include "tensora/nn/rnn_cell.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace detail {

void CellWeights::register_with(Module& module, std::string_view layer, int64_t gates,
                                int64_t input_size, int64_t hidden_size, bool bias) {
  check(input_size > 0 && hidden_size > 0, layer,
        ": expected positive sizes, got input_size=", input_size, " and hidden_size=", hidden_size);
  const TensorOptions made = FactoryScope::current();
  const int64_t rows = gates * hidden_size;
  weight_ih = module.register_parameter("weight_ih", empty({rows, input_size}, made));
  weight_hh = module.register_parameter("weight_hh", empty({rows, hidden_size}, made));
  bias_ih = module.register_parameter("bias_ih", bias ? empty({rows}, made) : Tensor());
  bias_hh = module.register_parameter("bias_hh", bias ? empty({rows}, made) : Tensor());
  reset();
}

void CellWeights::reset() {
  const no_grad scope;
  const double bound = 1 / std::sqrt(static_cast<double>(weight_hh.size(1)));
  for (const Parameter* weight : {&weight_ih, &weight_hh, &bias_ih, &bias_hh})
    if (weight->defined()) weight->uniform_(-bound, bound);
}

}  // namespace detail

namespace {

Tensor state_or_zeros(std::string_view layer, std::string_view what,
                      const std::optional<Tensor>& given, const Tensor& input, int64_t input_size,
                      int64_t hidden_size) {
  check((input.dim() == 1 || input.dim() == 2) && input.size(-1) == input_size, layer,
        ": expected an input of shape [batch, ", input_size, "] or [", input_size, "], got ",
        input.sizes());
  Shape expected = input.sizes();
  expected[input.dim() - 1] = hidden_size;
  if (!given || !given->defined())
    return zeros(expected, {.dtype = input.dtype(), .device = input.device()});
  check(given->sizes() == expected, layer, ": expected ", what, " of shape ", expected, ", got ",
        given->sizes());
  return *given;
}

std::string text_of(int64_t input_size, int64_t hidden_size, const detail::CellWeights& weights) {
  return concat(input_size, ", ", hidden_size, weights.bias_ih.defined() ? "" : ", bias=False");
}

}  // namespace

RNNCell::RNNCell(int64_t inputs, int64_t hidden, RNNCellOptions options)
    : input_size(inputs), hidden_size(hidden), relu_(options.nonlinearity == "relu") {
  check(relu_ || options.nonlinearity == "tanh",
        "RNNCell: nonlinearity must be 'tanh' or 'relu', got '", options.nonlinearity, "'");
  weights.register_with(*this, "RNNCell", 1, inputs, hidden, options.bias);
}

Tensor RNNCell::forward(const Tensor& input, const std::optional<Tensor>& hx) const {
  const Tensor h = state_or_zeros("RNNCell", "hx", hx, input, input_size, hidden_size);
  const auto& w = weights;
  return relu_ ? rnn_relu_cell(input, h, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh)
               : rnn_tanh_cell(input, h, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh);
}

std::string RNNCell::extra_repr() const {
  return text_of(input_size, hidden_size, weights) + (relu_ ? ", nonlinearity=relu" : "");
}

LSTMCell::LSTMCell(int64_t inputs, int64_t hidden, LSTMCellOptions options)
    : input_size(inputs), hidden_size(hidden) {
  weights.register_with(*this, "LSTMCell", 4, inputs, hidden, options.bias);
}

LSTMCell::State LSTMCell::forward(const Tensor& input, const std::optional<State>& hx) const {
  std::optional<Tensor> given_h, given_c;
  if (hx) std::tie(given_h, given_c) = *hx;
  const Tensor h =
      state_or_zeros("LSTMCell", "a hidden state", given_h, input, input_size, hidden_size);
  const Tensor c = state_or_zeros("LSTMCell", "a cell", given_c, input, input_size, hidden_size);
  const auto& w = weights;
  return lstm_cell(input, {h, c}, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh);
}

std::string LSTMCell::extra_repr() const { return text_of(input_size, hidden_size, weights); }

GRUCell::GRUCell(int64_t inputs, int64_t hidden, GRUCellOptions options)
    : input_size(inputs), hidden_size(hidden) {
  weights.register_with(*this, "GRUCell", 3, inputs, hidden, options.bias);
}

Tensor GRUCell::forward(const Tensor& input, const std::optional<Tensor>& hx) const {
  const Tensor h = state_or_zeros("GRUCell", "hx", hx, input, input_size, hidden_size);
  const auto& w = weights;
  return gru_cell(input, h, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh);
}

std::string GRUCell::extra_repr() const { return text_of(input_size, hidden_size, weights); }

}  // namespace tensora::nn
