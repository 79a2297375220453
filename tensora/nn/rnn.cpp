#include "tensora/nn/rnn.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace detail {

void Recurrence::register_with(Module& module) {
  check(input_size > 0 && hidden_size > 0, layer,
        ": expected positive sizes, got input_size=", input_size, " and hidden_size=", hidden_size);
  check(options.num_layers > 0, layer, ": num_layers must be positive, got ", options.num_layers);
  check(options.dropout >= 0 && options.dropout <= 1, layer,
        ": dropout must be between 0 and 1, got ", options.dropout);
  check(options.proj_size >= 0 && options.proj_size < hidden_size, layer,
        ": proj_size must be at least 0 and below hidden_size=", hidden_size, ", got ",
        options.proj_size);
  const TensorOptions made = FactoryScope::current();
  const int64_t rows = gates * hidden_size, directions = options.bidirectional ? 2 : 1;
  for (int64_t number = 0; number < options.num_layers; ++number)
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = tensora::concat("_l", number, direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* name, const Shape& sizes) {
        weights.push_back(module.register_parameter(name + suffix, empty(sizes, made)));
      };
      add("weight_ih", {rows, number == 0 ? input_size : state_size() * directions});
      add("weight_hh", {rows, state_size()});
      if (options.bias) {
        add("bias_ih", {rows});
        add("bias_hh", {rows});
      }
      if (options.proj_size > 0) add("weight_hr", {options.proj_size, hidden_size});
    }
  reset();
}

void Recurrence::reset() {
  const no_grad scope;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  for (const Parameter& weight : weights) weight.uniform_(-bound, bound);
}

std::string Recurrence::text() const {
  std::string text = tensora::concat(input_size, ", ", hidden_size);
  const auto add = [&](bool differs, const auto&... parts) {
    if (differs) text += tensora::concat(", ", parts...);
  };
  add(options.proj_size != 0, "proj_size=", options.proj_size);
  add(options.num_layers != 1, "num_layers=", options.num_layers);
  add(!options.bias, "bias=False");
  add(options.batch_first, "batch_first=True");
  add(options.dropout != 0, "dropout=", options.dropout);
  add(options.bidirectional, "bidirectional=True");
  return text;
}

std::pair<Tensor, bool> Recurrence::batched(const Tensor& input) const {
  check(input.dim() == 2 || input.dim() == 3, layer,
        ": expected an input of 2 or 3 dimensions, got shape ", input.sizes());
  check(input.size(-1) == input_size, layer, ": expected an input with ", input_size,
        " features, got shape ", input.sizes());
  if (input.dim() == 3) return {input, false};
  return {input.unsqueeze(options.batch_first ? 0 : 1), true};
}

Tensor Recurrence::state(const std::optional<Tensor>& given, std::string_view what, int64_t size,
                         const Tensor& like, int64_t batch, bool unbatched) const {
  if (!given || !given->defined())
    return zeros({states(), batch, size}, {.dtype = like.dtype(), .device = like.device()});
  const Shape expected = unbatched ? Shape{states(), size} : Shape{states(), batch, size};
  check(given->sizes() == expected, layer, ": expected ", what, " of shape ", expected, ", got ",
        given->sizes());
  return unbatched ? given->unsqueeze(1) : *given;
}

}  // namespace detail

namespace {

/// The sequences of a packed batch are sorted by length; the states follow the order of the batch.
Tensor in_order(const Tensor& state, const Tensor& order) {
  return order.defined() ? state.index_select(1, order) : state;
}
std::optional<Tensor> in_order(const std::optional<Tensor>& state, const Tensor& order) {
  if (!state || !state->defined()) return {};
  return in_order(*state, order);
}

int64_t first_batch(const PackedSequence& input, std::string_view layer) {
  check(input.data.defined() && input.batch_sizes.defined() && input.batch_sizes.numel() > 0, layer,
        ": the packed sequence is empty");
  return input.batch_sizes[0].item<int64_t>();
}

PackedSequence packed_like(const PackedSequence& input, Tensor data) {
  return {std::move(data), input.batch_sizes, input.sorted_indices, input.unsorted_indices};
}

/// Forward of the layers with one state: `run(input, hx, batch_first)`.
template <class Run>
std::tuple<Tensor, Tensor> run_batch(const detail::Recurrence& net, const Tensor& input,
                                     const std::optional<Tensor>& hx, const Run& run) {
  const auto [x, unbatched] = net.batched(input);
  const int64_t batch = x.size(net.options.batch_first ? 0 : 1);
  const Tensor h = net.state(hx, "hx", net.state_size(), x, batch, unbatched);
  auto [output, last] = run(x, h);
  if (!unbatched) return {output, last};
  return {output.squeeze(net.options.batch_first ? 0 : 1), last.squeeze(1)};
}

template <class Run>
std::tuple<PackedSequence, Tensor> run_packed(const detail::Recurrence& net,
                                              const PackedSequence& input,
                                              const std::optional<Tensor>& hx, const Run& run) {
  const Tensor h = net.state(in_order(hx, input.sorted_indices), "hx", net.state_size(), input.data,
                             first_batch(input, net.layer), false);
  auto [output, last] = run(h);
  return {packed_like(input, output), in_order(last, input.unsorted_indices)};
}

LSTMOptions shared(const auto& options) {
  return {.num_layers = options.num_layers,
          .bias = options.bias,
          .batch_first = options.batch_first,
          .dropout = options.dropout,
          .bidirectional = options.bidirectional};
}

}  // namespace

// ---- RNN
// -----------------------------------------------------------------------------------------

RNN::RNN(int64_t input_size, int64_t hidden_size, RNNOptions options)
    : recurrence_{"RNN", 1, input_size, hidden_size, shared(options), {}},
      relu_(options.nonlinearity == "relu") {
  check(relu_ || options.nonlinearity == "tanh",
        "RNN: nonlinearity must be 'tanh' or 'relu', got '", options.nonlinearity, "'");
  recurrence_.register_with(*this);
}

std::tuple<Tensor, Tensor> RNN::forward(const Tensor& input,
                                        const std::optional<Tensor>& hx) const {
  const LSTMOptions& o = recurrence_.options;
  return run_batch(recurrence_, input, hx, [&](const Tensor& x, const Tensor& h) {
    const TensorList weights = recurrence_.parameters();
    return relu_ ? rnn_relu(x, h, weights, o.bias, o.num_layers, o.dropout, is_training(),
                            o.bidirectional, o.batch_first)
                 : rnn_tanh(x, h, weights, o.bias, o.num_layers, o.dropout, is_training(),
                            o.bidirectional, o.batch_first);
  });
}

std::tuple<PackedSequence, Tensor> RNN::forward(const PackedSequence& input,
                                                const std::optional<Tensor>& hx) const {
  const LSTMOptions& o = recurrence_.options;
  return run_packed(recurrence_, input, hx, [&](const Tensor& h) {
    const TensorList weights = recurrence_.parameters();
    return relu_ ? rnn_relu(input.data, input.batch_sizes, h, weights, o.bias, o.num_layers,
                            o.dropout, is_training(), o.bidirectional)
                 : rnn_tanh(input.data, input.batch_sizes, h, weights, o.bias, o.num_layers,
                            o.dropout, is_training(), o.bidirectional);
  });
}

// ---- LSTM
// ----------------------------------------------------------------------------------------

LSTM::LSTM(int64_t input_size, int64_t hidden_size, LSTMOptions options)
    : recurrence_{"LSTM", 4, input_size, hidden_size, options, {}} {
  recurrence_.register_with(*this);
}

std::tuple<Tensor, LSTM::State> LSTM::forward(const Tensor& input,
                                              const std::optional<State>& hx) const {
  const detail::Recurrence& net = recurrence_;
  const LSTMOptions& o = net.options;
  const auto [x, unbatched] = net.batched(input);
  const int64_t dim = o.batch_first ? 0 : 1, batch = x.size(dim);
  const auto part = [&](const auto& state) { return std::optional<Tensor>(state); };
  const Tensor h = net.state(hx ? part(std::get<0>(*hx)) : std::nullopt, "hidden states",
                             net.state_size(), x, batch, unbatched);
  const Tensor c = net.state(hx ? part(std::get<1>(*hx)) : std::nullopt, "cells", net.hidden_size,
                             x, batch, unbatched);
  const auto [output, last_h, last_c] =
      lstm(x, {h, c}, net.parameters(), o.bias, o.num_layers, o.dropout, is_training(),
           o.bidirectional, o.batch_first);
  if (!unbatched) return {output, {last_h, last_c}};
  return {output.squeeze(dim), {last_h.squeeze(1), last_c.squeeze(1)}};
}

std::tuple<PackedSequence, LSTM::State> LSTM::forward(const PackedSequence& input,
                                                      const std::optional<State>& hx) const {
  const detail::Recurrence& net = recurrence_;
  const LSTMOptions& o = net.options;
  const int64_t batch = first_batch(input, net.layer);
  std::optional<Tensor> given_h, given_c;
  if (hx) std::tie(given_h, given_c) = *hx;
  const Tensor h = net.state(in_order(given_h, input.sorted_indices), "hidden states",
                             net.state_size(), input.data, batch, false);
  const Tensor c = net.state(in_order(given_c, input.sorted_indices), "cells", net.hidden_size,
                             input.data, batch, false);
  const auto [output, last_h, last_c] =
      lstm(input.data, input.batch_sizes, {h, c}, net.parameters(), o.bias, o.num_layers, o.dropout,
           is_training(), o.bidirectional);
  return {packed_like(input, output),
          {in_order(last_h, input.unsorted_indices), in_order(last_c, input.unsorted_indices)}};
}

// ---- GRU
// -----------------------------------------------------------------------------------------

GRU::GRU(int64_t input_size, int64_t hidden_size, GRUOptions options)
    : recurrence_{"GRU", 3, input_size, hidden_size, shared(options), {}} {
  recurrence_.register_with(*this);
}

std::tuple<Tensor, Tensor> GRU::forward(const Tensor& input,
                                        const std::optional<Tensor>& hx) const {
  const LSTMOptions& o = recurrence_.options;
  return run_batch(recurrence_, input, hx, [&](const Tensor& x, const Tensor& h) {
    return gru(x, h, recurrence_.parameters(), o.bias, o.num_layers, o.dropout, is_training(),
               o.bidirectional, o.batch_first);
  });
}

std::tuple<PackedSequence, Tensor> GRU::forward(const PackedSequence& input,
                                                const std::optional<Tensor>& hx) const {
  const LSTMOptions& o = recurrence_.options;
  return run_packed(recurrence_, input, hx, [&](const Tensor& h) {
    return gru(input.data, input.batch_sizes, h, recurrence_.parameters(), o.bias, o.num_layers,
               o.dropout, is_training(), o.bidirectional);
  });
}

}  // namespace tensora::nn
