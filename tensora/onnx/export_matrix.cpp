#include <cmath>
#include <limits>

#include "tensora/onnx/op_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {

Exprs write_rnn_layer(OpCall& call);  // export_rnn.cpp

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Exprs matmul(OpCall& c) { return {c.emit("MatMul", {c.in(0), c.in(1)})}; }

// Gemm takes a transposed factor as it lies.
struct Factor {
  Expr value;
  bool transposed = false;
};
Factor factor_of(OpCall& c, const Expr& x) {
  const NodeProto* node = c.producer(x);
  const AttributeProto* perm = node ? node->find("perm") : nullptr;
  if (node && node->op_type == "Transpose" && perm && perm->ints == std::vector<int64_t>{1, 0})
    return {{&c, node->inputs[0]}, true};
  return {x};
}

Exprs addmm(OpCall& c) {
  const double beta = c.number("beta"), alpha = c.number("alpha");
  if (c.rank(1) != 2 || !is_floating_point(c.dtype(1))) {
    Expr product = c.emit("MatMul", {c.in(1), c.in(2)});
    if (alpha != 1) product = product * c.constant(alpha, c.dtype(1));
    if (beta == 0) return {product};
    return {product + (beta == 1 ? c.in(0) : c.in(0) * c.constant(beta, c.dtype(0)))};
  }
  const Factor a = factor_of(c, c.in(1)), b = factor_of(c, c.in(2));
  Attributes attributes;
  if (alpha != 1) attributes.push_back(AttributeProto::of("alpha", alpha));
  if (beta != 1 && beta != 0) attributes.push_back(AttributeProto::of("beta", beta));
  if (a.transposed) attributes.push_back(AttributeProto::of("transA", int64_t{1}));
  if (b.transposed) attributes.push_back(AttributeProto::of("transB", int64_t{1}));
  Exprs inputs{a.value, b.value};
  if (beta != 0) inputs.push_back(c.in(0));
  return {c.emit("Gemm", inputs, attributes)};
}

AttributeProto perm(std::vector<int64_t> order) {
  return AttributeProto::of("perm", std::move(order));
}

// The heads of query that share one of key and value lie behind one another in query.
Expr repeated_heads(OpCall& c, size_t i) {
  const Shape &query = c.sizes(0), &shared = c.sizes(i);
  if (query[1] == shared[1]) return c.in(i);
  const int64_t group = query[1] / shared[1];
  const Expr apart = c.emit("Unsqueeze", {c.in(i), c.ints({2})});
  const Expr many = c.emit("Expand", {apart, c.ints({1, 1, group, 1, 1})});
  return c.reshape(many, {shared[0], query[1], shared[2], shared[3]});
}

// A row whose keys are all masked has only NaN after softmax; its result is zero.
Exprs attention(OpCall& c) {
  if (c.number("dropout_p") != 0) c.refuse("it has dropout; export the module in eval mode");
  if (c.has(4) || c.has(5)) c.refuse("packed sequences (varlen_attention) have no form in ONNX");
  const DType dtype = c.dtype(0);
  const double scale =
      c.given("scale") ? c.number("scale") : 1 / std::sqrt(static_cast<double>(c.sizes(0)[3]));
  const Expr keys = c.emit("Transpose", {repeated_heads(c, 1)}, {perm({0, 1, 3, 2})});
  Expr scores = c.emit("MatMul", {c.in(0) * c.constant(scale, dtype), keys});
  Expr hidden = c.none();  // where no key may be seen
  const auto hide = [&](const Expr& visible) {
    scores = c.emit("Where", {visible, scores, c.constant(-kInfinity, dtype)});
  };
  if (c.flag("is_causal")) {
    const Expr ones = c.emit("ConstantOfShape",
                             {c.ints({c.sizes(0)[2], c.sizes(1)[2]}, "the shape of the scores")},
                             {AttributeProto::of("value", full({1}, 1, {.dtype = kInt64}))});
    const Expr below =
        c.emit("Trilu", {ones, c.index(0)}, {AttributeProto::of("upper", int64_t{0})});
    hide(c.emit("Equal", {below, c.index(1)}));
  }
  if (c.has(3)) {
    if (c.dtype(3) == DType::boolean) {
      hide(c.in(3));
      hidden = c.emit("Not", {c.in(3)});
    } else {
      scores = scores + c.in(3, dtype);
      hidden = c.emit("Equal", {c.in(3, dtype), c.constant(-kInfinity, dtype)});
    }
  }
  Expr weights = c.emit("Softmax", {scores}, {AttributeProto::of("axis", int64_t{-1})});
  if (!hidden.name.empty()) weights = c.emit("Where", {hidden, c.constant(0, dtype), weights});
  return {c.emit("MatMul", {weights, repeated_heads(c, 2)})};
}

// A missing weight is one and a missing bias zero, of the normalised dims.
Exprs layer_norm(OpCall& c) {
  const Shape shape(c.list("normalized_shape"));
  const DType dtype = c.dtype(0);
  const Expr weight = c.has(1) ? c.in(1, dtype) : c.tensor(ones(shape, {.dtype = dtype}));
  const Expr bias = c.has(2) ? c.in(2, dtype) : c.none();
  return {c.emit("LayerNormalization", {c.in(0), weight, bias},
                 {AttributeProto::of("axis", int64_t{-shape.size()}),
                  AttributeProto::of("epsilon", c.number("eps"))})};
}

constexpr OpExport kRows[] = {
    {"addmm", "Gemm", addmm},
    {"attention", "MatMul, Softmax", attention},
    {"layer_norm", "LayerNormalization", layer_norm},
    {"matmul", "MatMul", matmul},
    {"whole_rnn_layer", "LSTM, GRU, RNN", write_rnn_layer},
};

}  // namespace

std::span<const OpExport> matrix_exports() { return kRows; }

}  // namespace tensora::onnx
