#include "tensora/onnx/op_call.h"
#include "tensora/onnx/rnn_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

void infer_layer(Infer& infer, const RnnLayerAttrs& attrs) {
  const Shape& state = infer[1].sizes();
  const DType dtype = infer[0].dtype();
  infer.output({infer[0].size(0), state[1]}, dtype);
  infer.output(state, dtype);
  if (attrs.kind == rnn::Kind::lstm) infer.output(state, dtype);
}

Tensors layer_definition(Args in, const RnnLayerAttrs& attrs) {
  return detail::apply_all(rnn_layer_op, in, &attrs);
}

bool is_expressible(const Call& call, const RnnLayerAttrs& attrs) {
  const bool projected = call.inputs.size() > 5 && call.inputs[5]->defined();
  const std::vector<int64_t>& sizes = attrs.batch_sizes;
  return !projected && !attrs.keep && !sizes.empty() && sizes.front() == sizes.back() &&
         sizes.front() > 0 && call.inputs[0]->is_floating_point();
}

}  // namespace

constinit OpDef<RnnLayerAttrs> whole_rnn_layer_op = define(Op<RnnLayerAttrs>{
    .name = "whole_rnn_layer",
    .inputs = {"gates", "hx", "w_hh", "cx?", "b_hh?", "w_hr?"},
    .internal = true,
    .infer = infer_layer,
    .reference = layer_definition,
    .gradient = Gradient::by_reference,
});

Tensors KeepsRnnLayers::intercept(const Call& call) {
  if (call.op.name != rnn_layer_op.name) return proceed(call);
  const auto& attrs = *static_cast<const RnnLayerAttrs*>(call.attrs);
  if (!is_expressible(call, attrs)) return proceed(call);
  return proceed({whole_rnn_layer_op, call.inputs, call.attrs, false});
}

namespace {

/// The gates of a layer in ONNX's order, by their positions in ours.
std::vector<int64_t> gate_order(const std::string& kind) {
  if (kind == "lstm") return {0, 3, 1, 2};  // input, output, forget, cell
  if (kind == "gru") return {1, 0, 2};      // update, reset, hidden
  return {0};
}

/// Writes a layer as LSTM, GRU or RNN. These operators multiply the input with its weights
/// themselves, while whole_rnn_layer takes the products: where a Gemm or MatMul computed them, its
/// operands become the operator's, and simplify() leaves the product out. Where something else did,
/// the weights are those that pass the gates on.
class RnnWriter {
 public:
  explicit RnnWriter(OpCall& call) : c_(call), kind_(call.text("kind")), order_(gate_order(kind_)) {
    batch_ = c_.sizes(1)[0];
    hidden_ = c_.sizes(1)[1];
    steps_ = c_.sizes(0)[0] / batch_;
  }

  Exprs write() {
    const Operands operands = operands_of(c_.in(0));
    const Expr x = c_.emit("Reshape", {operands.x, c_.ints({steps_, batch_, -1}, "the shape")});
    Exprs inputs{x,
                 leading(ordered(operands.weight)),
                 leading(ordered(c_.in(2))),
                 biases(operands),
                 c_.none(),
                 leading(c_.in(1))};
    const bool lstm = kind_ == "lstm";
    if (lstm) inputs.push_back(leading(c_.in(3)));
    Attributes attributes{AttributeProto::of("hidden_size", hidden_)};
    if (c_.flag("reverse"))
      attributes.push_back(AttributeProto::of("direction", std::string("reverse")));
    if (kind_ == "gru") attributes.push_back(AttributeProto::of("linear_before_reset", int64_t{1}));
    if (kind_ == "relu")
      attributes.push_back(AttributeProto::of("activations", std::vector<std::string>{"Relu"}));
    const Exprs results = c_.emit_list(lstm             ? "LSTM"
                                       : kind_ == "gru" ? "GRU"
                                                        : "RNN",
                                       inputs, attributes, lstm ? 3 : 2);
    const auto without_direction = [&](const Expr& value, int64_t dim) {
      return c_.emit("Squeeze", {value, c_.ints({dim})});
    };
    const Expr rows = c_.reshape(without_direction(results[0], 1), c_.result_sizes());
    Exprs all{rows, without_direction(results[1], 0)};
    if (lstm) all.push_back(without_direction(results[2], 0));
    return all;
  }

 private:
  struct Operands {
    Expr x, weight, bias;  // weight: gates x features
  };

  Operands operands_of(const Expr& gates) {
    const NodeProto* node = c_.producer(gates);
    const auto at = [&](size_t i) { return Expr{&c_, node->inputs[i]}; };
    if (node && node->op_type == "Gemm" && node->find("transB") && !node->find("alpha") &&
        !node->find("beta"))
      return {at(0), at(1), node->inputs.size() > 2 ? at(2) : c_.none()};
    if (node && node->op_type == "MatMul") {
      const Expr x = at(0), transposed = at(1);
      return {x, c_.emit("Transpose", {transposed}), c_.none()};
    }
    const int64_t width = c_.sizes(0)[1];
    return {gates, c_.tensor(eye(width, {.dtype = c_.dtype(0)})), c_.none()};
  }

  // A dim for the one direction.
  Expr leading(const Expr& x) { return c_.emit("Unsqueeze", {x, c_.ints({0})}); }

  Expr ordered(const Expr& rows) {
    if (order_.size() == 1) return rows;
    const std::vector<int64_t> sizes(order_.size(), hidden_);
    const Exprs parts = c_.emit_list("Split", {rows, c_.ints(sizes)},
                                     {AttributeProto::of("axis", int64_t{0})}, order_.size());
    Exprs in_order;
    for (int64_t i : order_) in_order.push_back(parts[static_cast<size_t>(i)]);
    return c_.emit("Concat", in_order, {AttributeProto::of("axis", int64_t{0})});
  }

  Expr biases(const Operands& operands) {
    const bool of_hidden = c_.has(4), of_input = !operands.bias.name.empty();
    if (!of_hidden && !of_input) return c_.none();
    const Shape none{static_cast<int64_t>(order_.size()) * hidden_};
    const Expr zero = c_.tensor(zeros(none, {.dtype = c_.dtype(0)}));
    return leading(c_.emit(
        "Concat", {of_input ? ordered(operands.bias) : zero, of_hidden ? ordered(c_.in(4)) : zero},
        {AttributeProto::of("axis", int64_t{0})}));
  }

  OpCall& c_;
  std::string kind_;
  std::vector<int64_t> order_;
  int64_t batch_, hidden_, steps_;
};

}  // namespace

Exprs write_rnn_layer(OpCall& call) { return RnnWriter(call).write(); }

}  // namespace tensora::onnx
