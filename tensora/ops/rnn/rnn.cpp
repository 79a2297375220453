// Registers nothing: layers are put together of rnn_layer, cells of its parts.
#include "tensora/ops/rnn/rnn.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/matrix/addmm.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/rnn/rnn_cell.h"
#include "tensora/ops/rnn/rnn_layer.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/split.h"

namespace tensora {
namespace {

using rnn::Kind;

constexpr int64_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

/// The weights of one direction of one layer.
struct Weights {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;
};

struct Network {
  std::string_view op;
  Kind kind;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional;

  int64_t directions() const { return bidirectional ? 2 : 1; }
};

void check_shape(const Network& net, const Tensor& x, const Shape& expected, const char* what,
                 size_t layer) {
  check(x.defined() && x.sizes() == expected, net.op, ": ", what, " of layer ", layer,
        " must have shape ", expected, ", got ", x.defined() ? to_string(x.sizes()) : "none");
}

std::vector<Weights> weights_of(const Network& net, const std::vector<Tensor>& params,
                                int64_t features, int64_t hidden, int64_t state) {
  check(net.num_layers > 0, net.op, ": num_layers must be positive, got ", net.num_layers);
  const size_t parts = static_cast<size_t>(net.num_layers * net.directions());
  const size_t plain = net.has_biases ? 4 : 2;
  const bool projected = net.kind == Kind::lstm && params.size() == parts * (plain + 1);
  check(params.size() == parts * plain || projected, net.op, ": expected ", plain,
        " parameters for each of ", parts, " layers and directions, got ", params.size());
  std::vector<Weights> result;
  const int64_t gates = gates_of(net.kind) * hidden;
  for (size_t i = 0; i < parts; ++i) {
    const Tensor* const from = params.data() + i * (plain + (projected ? 1 : 0));
    Weights w{from[0], from[1], {}, {}, {}};
    const size_t layer = i / static_cast<size_t>(net.directions());
    check_shape(net, w.w_ih, {gates, layer == 0 ? features : state * net.directions()}, "w_ih",
                layer);
    check_shape(net, w.w_hh, {gates, state}, "w_hh", layer);
    if (net.has_biases) {
      w.b_ih = from[2];
      w.b_hh = from[3];
      check_shape(net, w.b_ih, {gates}, "b_ih", layer);
      check_shape(net, w.b_hh, {gates}, "b_hh", layer);
    }
    if (projected) {
      w.w_hr = from[plain];
      check_shape(net, w.w_hr, {state, hidden}, "w_hr", layer);
    } else {
      check(state == hidden, net.op, ": hidden state and cell must have one size, got ", state,
            " and ", hidden);
    }
    result.push_back(std::move(w));
  }
  return result;
}

Tensors run_direction(const Network& net, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                      const Tensor& hx, const Tensor& cx, const Weights& w, bool reverse) {
  const bool gru = net.kind == Kind::gru;
  const Tensor bias = !net.has_biases ? Tensor() : gru ? w.b_ih : w.b_ih + w.b_hh;
  const Tensor gates = linear(x, w.w_ih, bias);
  bool keep = false;
  for (const Tensor* tensor : {&gates, &hx, &cx, &w.w_hh, &w.b_hh, &w.w_hr})
    keep |= tensor->defined() && tensor->requires_grad();
  RnnLayerAttrs attrs{net.kind, batch_sizes, reverse, keep && is_grad_enabled()};
  const Tensor hidden_bias = gru ? w.b_hh : Tensor();
  if (w.w_hr.defined())
    return apply_all(rnn_layer_op, {gates, hx, w.w_hh, cx, hidden_bias, w.w_hr}, attrs);
  if (hidden_bias.defined())
    return apply_all(rnn_layer_op, {gates, hx, w.w_hh, cx, hidden_bias}, attrs);
  if (cx.defined()) return apply_all(rnn_layer_op, {gates, hx, w.w_hh, cx}, attrs);
  return apply_all(rnn_layer_op, {gates, hx, w.w_hh}, attrs);
}

Tensor dropped(const Tensor& x, double p) {
  check(p >= 0 && p <= 1, "dropout must be between 0 and 1, got ", p);
  if (p == 0) return x;
  if (p == 1) return x * 0;
  return x * (bernoulli(x.detach(), 1 - p) * (1 / (1 - p)));
}

// As PyTorch does it: on the CPU the states of a GRU stay as they are.
AutocastPolicy autocast_policy(Kind kind) {
  return {kind == Kind::gru ? Autocast::as_is : Autocast::lower, Autocast::lower};
}

// x: the rows of all steps. Returns the same of the last layer, h_n and, for lstm, c_n.
std::array<Tensor, 3> run_network(const Network& net, Tensor x,
                                  const std::vector<int64_t>& batch_sizes, const Tensor& hx,
                                  const Tensor& cx, const std::vector<Tensor>& params) {
  if (is_autocast_enabled()) {
    SmallVector<Arg, 8> all = args_of(params);
    for (const Tensor* input : {&std::as_const(x), &hx, &cx}) all.emplace_back(*input);
    const AutocastCall call(net.op, autocast_policy(net.kind), all);
    std::vector<Tensor> weights = call.tensors();
    weights.resize(params.size());
    const size_t n = params.size();
    return run_network(net, call[n], batch_sizes, call[n + 1], call[n + 2], weights);
  }
  const int64_t states = net.num_layers * net.directions(), batch = batch_sizes[0];
  check(hx.dim() == 3 && hx.size(0) == states && hx.size(1) == batch, net.op,
        ": the hidden state must have shape [", states, ", ", batch, ", H], got ", hx.sizes());
  const bool lstm = net.kind == Kind::lstm;
  if (lstm)
    check(cx.dim() == 3 && cx.size(0) == states && cx.size(1) == batch, net.op,
          ": the cell must have shape [", states, ", ", batch, ", H], got ", cx.sizes());
  const std::vector<Weights> weights =
      weights_of(net, params, x.size(1), lstm ? cx.size(2) : hx.size(2), hx.size(2));
  const std::vector<Tensor> hidden = unbind(hx, 0),
                            cells = lstm ? unbind(cx, 0) : std::vector<Tensor>(hidden.size());
  std::vector<Tensor> last_hidden, last_cells;
  for (int64_t layer = 0; layer < net.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < net.directions(); ++direction) {
      const auto i = static_cast<size_t>(layer * net.directions() + direction);
      const Tensors results =
          run_direction(net, x, batch_sizes, hidden[i], cells[i], weights[i], direction == 1);
      outputs.push_back(results[0]);
      last_hidden.push_back(results[1]);
      if (lstm) last_cells.push_back(results[2]);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, 1);
    if (net.train && net.dropout > 0 && layer + 1 < net.num_layers) x = dropped(x, net.dropout);
  }
  return {x, stack(last_hidden, 0), lstm ? stack(last_cells, 0) : Tensor()};
}

std::array<Tensor, 3> run_padded(const Network& net, const Tensor& input, const Tensor& hx,
                                 const Tensor& cx, const std::vector<Tensor>& params,
                                 bool batch_first) {
  check(input.dim() == 3, net.op, ": input must have 3 dims, got shape ", input.sizes());
  const Tensor steps = batch_first ? transpose(input, 0, 1) : input;
  const int64_t length = steps.size(0), batch = steps.size(1);
  check(length > 0, net.op, ": input must have at least one step, got shape ", input.sizes());
  const std::vector<int64_t> batch_sizes(static_cast<size_t>(length), batch);
  auto [y, h, c] = run_network(net, reshape(steps, {length * batch, steps.size(2)}), batch_sizes,
                               hx, cx, params);
  const Tensor result = reshape(y, {length, batch, y.size(1)});
  return {batch_first ? transpose(result, 0, 1) : result, h, c};
}

std::array<Tensor, 3> run_packed(const Network& net, const Tensor& data, const Tensor& batch_sizes,
                                 const Tensor& hx, const Tensor& cx,
                                 const std::vector<Tensor>& params) {
  check(data.dim() == 2, net.op, ": packed data must have 2 dims, got shape ", data.sizes());
  check(batch_sizes.dim() == 1 && batch_sizes.dtype() == kInt64 && batch_sizes.is_cpu(), net.op,
        ": batch_sizes must be a 1-D int64 tensor on the cpu, got ", batch_sizes.dtype(), " ",
        batch_sizes.sizes(), " on ", batch_sizes.device());
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (int64_t i = 0; i < batch_sizes.numel(); ++i) {
    const int64_t size = batch_sizes.at<int64_t>({i});
    check(size > 0 && (sizes.empty() || size <= sizes.back()), net.op,
          ": batch_sizes must be positive and must not grow, got ", size, " at ", i);
    sizes.push_back(size);
    total += size;
  }
  check(!sizes.empty() && total == data.size(0), net.op, ": batch_sizes add up to ", total,
        ", but data has ", data.size(0), " rows");
  return run_network(net, data, sizes, hx, cx, params);
}

void check_states(std::string_view op, const std::vector<Tensor>& hx) {
  check(hx.size() == 2, op, ": expected two states, hidden and cell, got ", hx.size());
}
std::tuple<Tensor, Tensor, Tensor> three(std::array<Tensor, 3> all) {
  return {std::move(all[0]), std::move(all[1]), std::move(all[2])};
}
std::tuple<Tensor, Tensor> two(std::array<Tensor, 3> all) {
  return {std::move(all[0]), std::move(all[1])};
}

// ---- cells
// ---------------------------------------------------------------------------------------

struct CellInputs {
  Tensor input, hx, cx;  // with a batch
  bool batched;
};

CellInputs cell_inputs(std::string_view op, Kind kind, const Tensor& input, const Tensor& hx,
                       const Tensor& cx, const Weights& w) {
  check(input.dim() == 1 || input.dim() == 2, op, ": input must have 1 or 2 dims, got shape ",
        input.sizes());
  const bool batched = input.dim() == 2;
  const Network net{op, kind, w.b_ih.defined(), 1, 0, false, false};
  CellInputs result{input, hx, cx, batched};
  for (const Tensor* state : {&hx, &cx})
    if (state->defined())
      check(state->dim() == input.dim() && (!batched || state->size(0) == input.size(0)), op,
            ": states must have a row of the hidden size for each of input's, got shapes ",
            state->sizes(), " and ", input.sizes());
  const int64_t hidden = hx.size(-1);
  check(!cx.defined() || cx.size(-1) == hidden, op,
        ": hidden state and cell must have one size, got shapes ", hx.sizes(), " and ",
        cx.defined() ? cx.sizes() : Shape());
  const int64_t gates = gates_of(kind) * hidden;
  check_shape(net, w.w_ih, {gates, input.size(-1)}, "w_ih", 0);
  check_shape(net, w.w_hh, {gates, hidden}, "w_hh", 0);
  check(w.b_ih.defined() == w.b_hh.defined(), op, ": give both biases or none");
  if (w.b_ih.defined()) {
    check_shape(net, w.b_ih, {gates}, "b_ih", 0);
    check_shape(net, w.b_hh, {gates}, "b_hh", 0);
  }
  if (batched) return result;
  result.input = unsqueeze(input, 0);
  result.hx = unsqueeze(hx, 0);
  if (cx.defined()) result.cx = unsqueeze(cx, 0);
  return result;
}

Tensor all_gates(const CellInputs& in, const Weights& w) {
  const Tensor bias = w.b_ih.defined() ? w.b_ih + w.b_hh : Tensor();
  return addmm(linear(in.input, w.w_ih, bias), in.hx, t(w.w_hh));
}
Tensor plain_cell(std::string_view op, Kind kind, const Tensor& input, const Tensor& hx,
                  const Weights& w) {
  if (is_autocast_enabled())
    return autocast_call(
        op, Autocast::lower,
        [&](const Tensor& x, const Tensor& h, const Tensor& wi, const Tensor& wh, const Tensor& bi,
            const Tensor& bh) {
          return plain_cell(op, kind, x, h, {wi, wh, bi, bh, {}});
        },
        input, hx, w.w_ih, w.w_hh, w.b_ih, w.b_hh);
  const CellInputs in = cell_inputs(op, kind, input, hx, {}, w);
  const Tensor sums = all_gates(in, w), result = kind == Kind::tanh ? tanh(sums) : relu(sums);
  return in.batched ? result : squeeze(result, 0);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, const std::vector<Tensor>& hx,
                                        const std::vector<Tensor>& params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train,
                                        bool bidirectional, bool batch_first) {
  check_states("lstm", hx);
  const Network net{"lstm", Kind::lstm, has_biases, num_layers, dropout, train, bidirectional};
  return three(run_padded(net, input, hx[0], hx[1], params, batch_first));
}
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& data, const Tensor& batch_sizes,
                                        const std::vector<Tensor>& hx,
                                        const std::vector<Tensor>& params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train,
                                        bool bidirectional) {
  check_states("lstm", hx);
  const Network net{"lstm", Kind::lstm, has_biases, num_layers, dropout, train, bidirectional};
  return three(run_packed(net, data, batch_sizes, hx[0], hx[1], params));
}
std::tuple<Tensor, Tensor> gru(const Tensor& input, const Tensor& hx,
                               const std::vector<Tensor>& params, bool has_biases,
                               int64_t num_layers, double dropout, bool train, bool bidirectional,
                               bool batch_first) {
  const Network net{"gru", Kind::gru, has_biases, num_layers, dropout, train, bidirectional};
  return two(run_padded(net, input, hx, {}, params, batch_first));
}
std::tuple<Tensor, Tensor> gru(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                               const std::vector<Tensor>& params, bool has_biases,
                               int64_t num_layers, double dropout, bool train, bool bidirectional) {
  const Network net{"gru", Kind::gru, has_biases, num_layers, dropout, train, bidirectional};
  return two(run_packed(net, data, batch_sizes, hx, {}, params));
}
std::tuple<Tensor, Tensor> rnn_tanh(const Tensor& input, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional, bool batch_first) {
  const Network net{"rnn_tanh", Kind::tanh, has_biases, num_layers, dropout, train, bidirectional};
  return two(run_padded(net, input, hx, {}, params, batch_first));
}
std::tuple<Tensor, Tensor> rnn_tanh(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional) {
  const Network net{"rnn_tanh", Kind::tanh, has_biases, num_layers, dropout, train, bidirectional};
  return two(run_packed(net, data, batch_sizes, hx, {}, params));
}
std::tuple<Tensor, Tensor> rnn_relu(const Tensor& input, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional, bool batch_first) {
  const Network net{"rnn_relu", Kind::relu, has_biases, num_layers, dropout, train, bidirectional};
  return two(run_padded(net, input, hx, {}, params, batch_first));
}
std::tuple<Tensor, Tensor> rnn_relu(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional) {
  const Network net{"rnn_relu", Kind::relu, has_biases, num_layers, dropout, train, bidirectional};
  return two(run_packed(net, data, batch_sizes, hx, {}, params));
}

std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx,
                                     const Tensor& w_ih, const Tensor& w_hh) {
  return lstm_cell(input, hx, w_ih, w_hh, {}, {});
}
std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx,
                                     const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                                     const Tensor& b_hh) {
  check_states("lstm_cell", hx);
  if (is_autocast_enabled())
    return autocast_call(
        "lstm_cell", {Autocast::as_is, Autocast::lower},
        [](const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& wi, const Tensor& wh,
           const Tensor& bi, const Tensor& bh) {
          return lstm_cell(x, {h, c}, wi, wh, bi, bh);
        },
        input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh);
  const Weights w{w_ih, w_hh, b_ih, b_hh, {}};
  const CellInputs in = cell_inputs("lstm_cell", Kind::lstm, input, hx[0], hx[1], w);
  const Tensor gates = all_gates(in, w);
  const bool keep = is_grad_enabled() && (gates.requires_grad() || in.cx.requires_grad());
  const Tensors results = apply_all(lstm_step_op, {gates, in.cx}, {keep});
  if (in.batched) return {results[0], results[1]};
  return {squeeze(results[0], 0), squeeze(results[1], 0)};
}
Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh) {
  return gru_cell(input, hx, w_ih, w_hh, {}, {});
}
Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                const Tensor& b_ih, const Tensor& b_hh) {
  if (is_autocast_enabled())
    return autocast_call(
        "gru_cell", {Autocast::as_is, Autocast::lower},
        [](const Tensor& x, const Tensor& h, const Tensor& wi, const Tensor& wh, const Tensor& bi,
           const Tensor& bh) { return gru_cell(x, h, wi, wh, bi, bh); },
        input, hx, w_ih, w_hh, b_ih, b_hh);
  const Weights w{w_ih, w_hh, b_ih, b_hh, {}};
  const CellInputs in = cell_inputs("gru_cell", Kind::gru, input, hx, {}, w);
  const Tensor from_input = linear(in.input, w_ih, b_ih), from_hidden = linear(in.hx, w_hh, b_hh);
  const bool keep = is_grad_enabled() && (from_input.requires_grad() ||
                                          from_hidden.requires_grad() || in.hx.requires_grad());
  const Tensors results = apply_all(gru_step_op, {from_input, from_hidden, in.hx}, {keep});
  return in.batched ? results[0] : squeeze(results[0], 0);
}
Tensor rnn_tanh_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                     const Tensor& w_hh) {
  return rnn_tanh_cell(input, hx, w_ih, w_hh, {}, {});
}
Tensor rnn_tanh_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return plain_cell("rnn_tanh_cell", Kind::tanh, input, hx, {w_ih, w_hh, b_ih, b_hh, {}});
}
Tensor rnn_relu_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                     const Tensor& w_hh) {
  return rnn_relu_cell(input, hx, w_ih, w_hh, {}, {});
}
Tensor rnn_relu_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return plain_cell("rnn_relu_cell", Kind::relu, input, hx, {w_ih, w_hh, b_ih, b_hh, {}});
}

}  // namespace tensora
