#include <cmath>
#include <numbers>

#include "tensora/onnx/op_call.h"

namespace tensora::onnx {
namespace {

AttributeProto real(const char* name, double value) { return AttributeProto::of(name, value); }

Expr sigmoid_of(OpCall& c, const Expr& x) { return c.emit("Sigmoid", {x}); }
Exprs silu(OpCall& c) { return {c.operand(0) * sigmoid_of(c, c.operand(0))}; }
Exprs leaky_relu(OpCall& c) {
  return {c.emit("LeakyRelu", {c.operand(0)}, {real("alpha", c.number("negative_slope"))})};
}
Expr clipped(OpCall& c, const Expr& x, double low, double high) {
  return c.emit("Clip", {x, c.constant(low), c.constant(high)});
}
Exprs hardtanh(OpCall& c) {
  return {clipped(c, c.operand(0), c.number("min_val"), c.number("max_val"))};
}
Exprs relu6(OpCall& c) { return {clipped(c, c.operand(0), 0, 6)}; }
Exprs hardsigmoid(OpCall& c) {
  return {c.emit("HardSigmoid", {c.operand(0)}, {real("alpha", 1.0 / 6), real("beta", 0.5)})};
}
Exprs softshrink(OpCall& c) {
  const double limit = c.number("lambd");
  return {c.emit("Shrink", {c.operand(0)}, {real("lambd", limit), real("bias", limit)})};
}
Exprs hardshrink(OpCall& c) {
  return {c.emit("Shrink", {c.operand(0)}, {real("lambd", c.number("lambd")), real("bias", 0)})};
}
Exprs threshold(OpCall& c) {
  const Expr x = c.operand(0);
  const Expr passes = c.emit("Greater", {x, c.constant(c.number("threshold"))});
  return {c.emit("Where", {passes, x, c.constant(c.number("value"))})};
}
Exprs elu(OpCall& c) { return {c.emit("Elu", {c.operand(0)}, {real("alpha", c.number("alpha"))})}; }
Exprs celu(OpCall& c) {
  return {c.emit("Celu", {c.operand(0)}, {real("alpha", c.number("alpha"))})};
}
Exprs selu(OpCall& c) { return {c.emit("Selu", {c.operand(0)})}; }

// Gelu is an operator since version 20.
Exprs gelu(OpCall& c) {
  const Expr x = c.operand(0);
  if (c.opset_version() >= 20) return {c.emit("Gelu", {x})};
  const Expr share = c.emit("Erf", {x * c.constant(std::numbers::sqrt2 / 2)}) + c.constant(1);
  return {x * c.constant(0.5) * share};
}
Exprs gelu_tanh(OpCall& c) {
  const Expr x = c.operand(0);
  if (c.opset_version() >= 20)
    return {c.emit("Gelu", {x}, {AttributeProto::of("approximate", std::string("tanh"))})};
  const Expr inner = x + x * x * x * c.constant(0.044715);
  const Expr curve = c.emit("Tanh", {inner * c.constant(std::sqrt(2 / std::numbers::pi))});
  return {x * c.constant(0.5) * (curve + c.constant(1))};
}

Expr softplus_of(OpCall& c, const Expr& x) { return c.emit("Softplus", {x}); }
Exprs softplus(OpCall& c) {
  const double beta = c.number("beta");
  const Expr x = c.operand(0), z = beta == 1 ? x : x * c.constant(beta);
  const Expr curve = beta == 1 ? softplus_of(c, z) : softplus_of(c, z) / c.constant(beta);
  const Expr is_linear = c.emit("Greater", {z, c.constant(c.number("threshold"))});
  return {c.emit("Where", {is_linear, x, curve})};
}
Exprs logsigmoid(OpCall& c) {
  return {c.emit("Neg", {softplus_of(c, c.emit("Neg", {c.operand(0)}))})};
}
Exprs tanhshrink(OpCall& c) { return {c.operand(0) - c.emit("Tanh", {c.operand(0)})}; }
Exprs parametric_relu(OpCall& c) {
  const Expr x = c.operand(0), is_positive = c.emit("Greater", {x, c.constant(0)});
  return {c.emit("Where", {is_positive, x, c.operand(1) * x})};
}

// The result's dtype may be chosen; the input is converted first.
Exprs softmax_as(OpCall& c, std::string_view onnx) {
  const Expr x = c.in(0, c.result_dtype());
  if (c.rank(0) == 0) {  // ONNX's operators need a dim
    const Expr row = c.emit(onnx, {c.reshape(x, {1})}, {AttributeProto::of("axis", int64_t{0})});
    return {c.reshape(row, {})};
  }
  return {c.emit(onnx, {x}, {AttributeProto::of("axis", c.dim("dim", c.rank(0)))})};
}
Exprs softmax(OpCall& c) { return softmax_as(c, "Softmax"); }
Exprs log_softmax(OpCall& c) { return softmax_as(c, "LogSoftmax"); }

constexpr OpExport kRows[] = {
    {"celu", "Celu", celu},
    {"elu", "Elu", elu},
    {"gelu", "Gelu", gelu},
    {"gelu_tanh", "Gelu", gelu_tanh},
    {"hardshrink", "Shrink", hardshrink},
    {"hardsigmoid", "HardSigmoid", hardsigmoid},
    {"hardswish", "HardSwish"},
    {"hardtanh", "Clip", hardtanh},
    {"leaky_relu", "LeakyRelu", leaky_relu},
    {"log_softmax", "LogSoftmax", log_softmax},
    {"logsigmoid", "Softplus, Neg", logsigmoid},
    {"mish", "Mish"},
    {"parametric_relu", "Greater, Where", parametric_relu},
    {"relu", "Relu"},
    {"relu6", "Clip", relu6},
    {"selu", "Selu", selu},
    {"sigmoid", "Sigmoid"},
    {"silu", "Sigmoid, Mul", silu},
    {"softmax", "Softmax", softmax},
    {"softplus", "Softplus, Where", softplus},
    {"softshrink", "Shrink", softshrink},
    {"softsign", "Softsign"},
    {"tanhshrink", "Tanh, Sub", tanhshrink},
    {"threshold", "Greater, Where", threshold},
};

}  // namespace

std::span<const OpExport> activation_exports() { return kRows; }

}  // namespace tensora::onnx
