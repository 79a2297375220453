#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

Results matrix_product(const NodeCall& c) { return {matmul(c[0], c[1])}; }
Results gemm(const NodeCall& c) {
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  const Tensor a = c.integer("transA", 0) != 0 ? t(c[0]) : c[0],
               b = c.integer("transB", 0) != 0 ? t(c[1]) : c[1];
  c.expect(a.dim() == 2 && b.dim() == 2, "factors of shapes ", a.sizes(), " and ", b.sizes());
  if (!c.has(2) || beta == 0) return {alpha == 1 ? mm(a, b) : mm(a, b) * alpha};
  return {addmm(c[2], a, b, beta, alpha)};
}
Results einsum_of(const NodeCall& c) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < c.inputs(); ++i) operands.push_back(c[i]);
  return {einsum(c.text("equation", ""), operands)};
}

// ---- norms -------------------------------------------------------------------------------------

Shape last_dims(const NodeCall& c, const Tensor& x) {
  const int axis = wrap_dim(c.integer("axis", -1), x.dim(), c.op());
  Shape sizes;
  for (int d = axis; d < x.dim(); ++d) sizes.push_back(x.sizes()[d]);
  return sizes;
}
// A weight that broadcasts, in the shape of the normalised dims.
Tensor of_rows(const Tensor& weight, const Shape& sizes) {
  if (!weight.defined() || weight.sizes() == sizes) return weight;
  return contiguous(expand(weight, sizes));
}
Results layer_normalization(const NodeCall& c) {
  const Tensor x = c[0];
  const Shape sizes = last_dims(c, x);
  Results results{layer_norm(x, sizes, of_rows(c[1], sizes), of_rows(c.optional(2), sizes),
                             c.number("epsilon", 1e-5))};
  if (!c.wants(1) && !c.wants(2)) return results;
  Dims dims;
  for (int d = x.dim() - sizes.size(); d < x.dim(); ++d) dims.push_back(d);
  const auto [variance, average] = var_mean(to(x, kFloat32), dims, 0, true);
  results.push_back(average);
  results.push_back(rsqrt(variance + c.number("epsilon", 1e-5)));
  return results;
}
Results rms_normalization(const NodeCall& c) {
  const Tensor x = c[0];
  const Shape sizes = last_dims(c, x);
  return {rms_norm(x, sizes, of_rows(c[1], sizes), c.number("epsilon", 1e-5))};
}
Results batch_normalization(const NodeCall& c) {
  c.expect(c.integer("training_mode", 0) == 0, "training_mode is not supported");
  const Tensor x = c[0];
  c.expect(x.dim() >= 2, "an input of shape ", x.sizes());
  return {batch_norm(x, c[3], c[4], c[1], c[2], false, 0.1, c.number("epsilon", 1e-5))};
}
Results instance_normalization(const NodeCall& c) {
  return {instance_norm(c[0], {}, {}, c[1], c[2], true, 0.1, c.number("epsilon", 1e-5))};
}
// Before version 21 there is one weight per group, later one per channel.
Results group_normalization(const NodeCall& c) {
  const Tensor x = c[0];
  const int64_t groups = c.integer("num_groups", 0);
  c.expect(x.dim() >= 2 && groups > 0 && x.size(1) % groups == 0, groups,
           " groups of an input of shape ", x.sizes());
  const auto of_channels = [&](const Tensor& weight) {
    return weight.size(0) == x.size(1) ? weight : repeat_interleave(weight, x.size(1) / groups, 0);
  };
  return {group_norm(x, groups, of_channels(c[1]), of_channels(c[2]), c.number("epsilon", 1e-5))};
}

// ---- recurrent layers --------------------------------------------------------------------------

/// LSTM, GRU and RNN by the library's own layers, one per direction, with gates in their order.
class Recurrent {
 public:
  Recurrent(const NodeCall& c, std::vector<int64_t> order) : c_(c), order_(std::move(order)) {
    direction_ = c.text("direction", "forward");
    c.expect(direction_ == "forward" || direction_ == "reverse" || direction_ == "bidirectional",
             "the direction '", direction_, "' is unknown");
    c.expect(!c.has(4), "sequence_lens is not supported");
    c.expect(!c.has(7), "peepholes (input P) are not supported");
    c.expect(!c.attr("clip"), "clip is not supported");
    c.expect(c.integer("layout", 0) == 0, "layout 1 is not supported");
    c.expect(c.integer("input_forget", 0) == 0, "input_forget is not supported");
    x_ = c[0];
    directions_ = direction_ == "bidirectional" ? 2 : 1;
    const Tensor w = c[1], r = c[2];
    c.expect(x_.dim() == 3 && w.dim() == 3 && r.dim() == 3 && w.size(0) == directions_ &&
                 r.size(0) == directions_,
             "X, W and R of shapes ", x_.sizes(), ", ", w.sizes(), " and ", r.sizes());
    hidden_ = r.size(2);
  }

  /// Every direction must have the layer's usual functions.
  void expect_activations(const std::vector<std::string>& usual) const {
    const std::vector<std::string> given = c_.texts("activations");
    for (size_t i = 0; i < given.size(); ++i)
      c_.expect(given[i] == usual[i % usual.size()], "the activation '", given[i],
                "' is not supported");
  }

  template <class Layer>
  Results run(const Layer& layer, bool has_cell) const {
    std::vector<Tensor> y, h, cells;
    for (int64_t d = 0; d < directions_; ++d) {
      const bool backward = direction_ == "reverse" || d == 1;
      const Tensor steps = backward ? flip(x_, {0}) : x_;
      const auto [out, last, cell] =
          layer(steps, state(5, d), has_cell ? state(6, d) : Tensor(), weights(d));
      y.push_back(backward ? flip(out, {0}) : out);
      h.push_back(last);
      if (has_cell) cells.push_back(cell);
    }
    Results results{stack(y, 1), cat(h, 0)};
    if (has_cell) results.push_back(cat(cells, 0));
    return results;
  }

 private:
  Tensor state(size_t i, int64_t d) const {
    if (c_.has(i)) return narrow(c_[i], 0, d, 1);
    return zeros({1, x_.size(1), hidden_}, {.dtype = x_.dtype(), .device = x_.device()});
  }
  Tensor in_order(const Tensor& rows) const {
    c_.expect(rows.size(0) == std::ssize(order_) * hidden_, "weights of ", rows.size(0),
              " rows for ", hidden_, " hidden units");
    std::vector<Tensor> parts;
    for (int64_t gate : order_) parts.push_back(narrow(rows, 0, gate * hidden_, hidden_));
    return parts.size() == 1 ? parts[0] : cat(parts, 0);
  }
  std::vector<Tensor> weights(int64_t d) const {
    std::vector<Tensor> all{in_order(select(c_[1], 0, d)), in_order(select(c_[2], 0, d))};
    const int64_t gates = std::ssize(order_) * hidden_;
    Tensor both = zeros({2 * gates}, {.dtype = x_.dtype(), .device = x_.device()});
    if (c_.has(3)) both = select(c_[3], 0, d);
    all.push_back(in_order(narrow(both, 0, 0, gates)));
    all.push_back(in_order(narrow(both, 0, gates, gates)));
    return all;
  }

  const NodeCall& c_;
  std::vector<int64_t> order_;
  std::string direction_;
  Tensor x_;
  int64_t directions_, hidden_;
};

using State = std::tuple<Tensor, Tensor, Tensor>;
using Weights = std::vector<Tensor>;

Results lstm_layer(const NodeCall& c) {
  const Recurrent layer(c, {0, 2, 3, 1});  // ONNX has input, output, forget, cell
  layer.expect_activations({"Sigmoid", "Tanh", "Tanh"});
  return layer.run(
      [](const Tensor& x, const Tensor& h, const Tensor& cell, const Weights& w) {
        return lstm(x, {h, cell}, w, true, 1, 0, false, false, false);
      },
      true);
}
Results gru_layer(const NodeCall& c) {
  const Recurrent layer(c, {1, 0, 2});  // ONNX has update, reset, hidden
  layer.expect_activations({"Sigmoid", "Tanh"});
  c.expect(c.integer("linear_before_reset", 0) != 0, "linear_before_reset 0 is not supported");
  return layer.run(
      [](const Tensor& x, const Tensor& h, const Tensor&, const Weights& w) {
        const auto [y, last] = gru(x, h, w, true, 1, 0, false, false, false);
        return State{y, last, Tensor()};
      },
      false);
}
Results rnn_layer(const NodeCall& c) {
  const std::vector<std::string> given = c.texts("activations");
  const bool by_relu = !given.empty() && given[0] == "Relu";
  const Recurrent layer(c, {0});
  layer.expect_activations({by_relu ? "Relu" : "Tanh"});
  return layer.run(
      [by_relu](const Tensor& x, const Tensor& h, const Tensor&, const Weights& w) {
        const auto [y, last] = by_relu ? rnn_relu(x, h, w, true, 1, 0, false, false, false)
                                       : rnn_tanh(x, h, w, true, 1, 0, false, false, false);
        return State{y, last, Tensor()};
      },
      false);
}

constexpr std::string_view kRnnAttributes =
    "activations activation_alpha activation_beta clip direction hidden_size input_forget layout "
    "linear_before_reset";

constexpr OpImport kRows[] = {
    {"BatchNormalization", 5, 5, "epsilon momentum training_mode", batch_normalization},
    {"Einsum", 1, -1, "equation", einsum_of},
    {"GRU", 3, 6, kRnnAttributes, gru_layer},
    {"Gemm", 2, 3, "alpha beta transA transB", gemm},
    {"GroupNormalization", 3, 3, "epsilon num_groups stash_type", group_normalization},
    {"InstanceNormalization", 3, 3, "epsilon", instance_normalization},
    {"LSTM", 3, 8, kRnnAttributes, lstm_layer},
    {"LayerNormalization", 2, 3, "axis epsilon stash_type", layer_normalization},
    {"MatMul", 2, 2, "", matrix_product},
    {"RMSNormalization", 2, 2, "axis epsilon stash_type", rms_normalization},
    {"RNN", 3, 6, kRnnAttributes, rnn_layer},
};

}  // namespace

std::span<const OpImport> matrix_imports() { return kRows; }

}  // namespace tensora::onnx
