#include <cmath>

#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

// Operators that are one function of the library.
template <Tensor (*function)(const Tensor&)>
Results unary(const NodeCall& c) {
  return {function(c[0])};
}
template <Tensor (*function)(const Tensor&, const Tensor&)>
Results binary(const NodeCall& c) {
  return {function(c[0], c[1])};
}
// Operators that combine any number of tensors, two at a time.
template <Tensor (*function)(const Tensor&, const Tensor&)>
Results folded(const NodeCall& c) {
  Tensor result = c[0];
  for (size_t i = 1; i < c.inputs(); ++i) result = function(result, c[i]);
  return {result};
}

Tensor add_all(const Tensor& a, const Tensor& b) { return add(a, b); }
Results mean_all(const NodeCall& c) {
  return {folded<add_all>(c)[0] / static_cast<double>(c.inputs())};
}
Tensor subtracted(const Tensor& a, const Tensor& b) { return sub(a, b); }
// Integers are divided towards zero.
Results divide(const NodeCall& c) {
  const bool integers = is_integral(c[0].dtype());
  return {integers ? div(c[0], c[1], "trunc") : div(c[0], c[1])};
}
Results modulo(const NodeCall& c) {
  return {c.integer("fmod", 0) != 0 ? fmod(c[0], c[1]) : remainder(c[0], c[1])};
}
// The result has the dtype of the base.
Results power(const NodeCall& c) {
  const Tensor base = c[0], exponent = c[1];
  if (exponent.dim() == 0 && exponent.device().is_cpu() && is_floating_point(base.dtype()))
    return {to(pow(base, to(exponent, base.dtype())), base.dtype())};
  return {to(pow(base, exponent), base.dtype())};
}
Results shift(const NodeCall& c) {
  const bool left = c.text("direction", "") == "LEFT";
  return {left ? bitwise_left_shift(c[0], c[1]) : bitwise_right_shift(c[0], c[1])};
}
Results rounded(const NodeCall& c) { return {round(c[0])}; }
Results is_infinite(const NodeCall& c) {
  const Tensor x = c[0];
  const bool positive = c.integer("detect_positive", 1) != 0,
             negative = c.integer("detect_negative", 1) != 0;
  if (positive && negative) return {isinf(x)};
  return {positive ? isposinf(x) : negative ? isneginf(x) : logical_and(isinf(x), isfinite(x))};
}
Results choose(const NodeCall& c) { return {where(c[0], c[1], c[2])}; }
Results same(const NodeCall& c) { return {c[0]}; }
Results error_function(const NodeCall& c) { return {erf(c[0])}; }

// ---- activations -------------------------------------------------------------------------------

Results gelu_as(const NodeCall& c) { return {gelu(c[0], c.text("approximate", "none"))}; }
Results elu_as(const NodeCall& c) { return {elu(c[0], c.number("alpha", 1))}; }
Results celu_as(const NodeCall& c) { return {celu(c[0], c.number("alpha", 1))}; }
Results selu_as(const NodeCall& c) {
  const double alpha = c.number("alpha", 1.6732632423543772),
               scale = c.number("gamma", 1.0507009873554805);
  return {elu(c[0], alpha) * scale};
}
Results leaky(const NodeCall& c) { return {leaky_relu(c[0], c.number("alpha", 0.01))}; }
Results hard_sigmoid(const NodeCall& c) {
  return {clamp(c[0] * c.number("alpha", 0.2) + c.number("beta", 0.5), 0, 1)};
}
Results soft_plus(const NodeCall& c) { return {softplus(c[0])}; }
Results shrink(const NodeCall& c) {
  const double limit = c.number("lambd", 0.5), bias = c.number("bias", 0);
  const Tensor x = c[0];
  return {where(gt(x, limit), x - bias, where(lt(x, -limit), x + bias, x * 0))};
}
Results thresholded(const NodeCall& c) { return {threshold(c[0], c.number("alpha", 1), 0)}; }
Results prelu_as(const NodeCall& c) {
  const Tensor x = c[0];
  return {where(gt(x, 0), x, x * c[1])};
}
// A bound that is a constant is a number to the op.
Results clip(const NodeCall& c) {
  std::optional<Scalar> low, high;
  if (const AttributeProto* found = c.attr("min")) low = static_cast<double>(found->f);
  if (const AttributeProto* found = c.attr("max")) high = static_cast<double>(found->f);
  const Tensor x = c[0];
  const bool integers = is_integral(x.dtype());
  const auto bound = [&](size_t i) {
    return integers ? Scalar(c.integer(i)) : Scalar(c.number(i));
  };
  if (c.has(1)) low = bound(1);
  if (c.has(2)) high = bound(2);
  if (!low && !high) return {x};
  return {clamp(x, low, high)};
}
Results sigmoid_weighted(const NodeCall& c) {
  const double alpha = c.number("alpha", 1);
  return {alpha == 1 ? silu(c[0]) : c[0] * sigmoid(c[0] * alpha)};
}
Results softmax_of(const NodeCall& c,
                   Tensor (*function)(const Tensor&, int64_t, std::optional<DType>)) {
  const Tensor x = c[0];
  if (c.opset() >= 13) return {function(x, c.integer("axis", -1), std::nullopt)};
  // Older versions take all dims from the axis on as one.
  const int64_t axis = wrap_dim(c.integer("axis", 1), x.dim(), c.op());
  if (axis == x.dim() - 1) return {function(x, axis, std::nullopt)};
  const Tensor rows = flatten(x, axis, -1);
  return {reshape(function(rows, axis, std::nullopt), x.sizes())};
}
Results soft_max(const NodeCall& c) { return softmax_of(c, softmax); }
Results log_soft_max(const NodeCall& c) { return softmax_of(c, log_softmax); }
Results no_dropout(const NodeCall& c) {
  if (c.has(2)) c.expect(c.number(2) == 0, "training_mode is not supported");
  Results results{c[0]};
  if (c.wants(1)) results.push_back(ones_like(c[0]).to(kBool));
  return results;
}

constexpr OpImport kRows[] = {
    {"Abs", 1, 1, "", unary<abs>},
    {"Acos", 1, 1, "", unary<acos>},
    {"Acosh", 1, 1, "", unary<acosh>},
    {"Add", 2, 2, "", binary<add_all>},
    {"And", 2, 2, "", binary<logical_and>},
    {"Asin", 1, 1, "", unary<asin>},
    {"Asinh", 1, 1, "", unary<asinh>},
    {"Atan", 1, 1, "", unary<atan>},
    {"Atanh", 1, 1, "", unary<atanh>},
    {"BitShift", 2, 2, "direction", shift},
    {"BitwiseAnd", 2, 2, "", binary<bitwise_and>},
    {"BitwiseNot", 1, 1, "", unary<bitwise_not>},
    {"BitwiseOr", 2, 2, "", binary<bitwise_or>},
    {"BitwiseXor", 2, 2, "", binary<bitwise_xor>},
    {"Ceil", 1, 1, "", unary<ceil>},
    {"Celu", 1, 1, "alpha", celu_as},
    {"Clip", 1, 3, "min max", clip},
    {"Cos", 1, 1, "", unary<cos>},
    {"Cosh", 1, 1, "", unary<cosh>},
    {"Div", 2, 2, "", divide},
    {"Dropout", 1, 3, "ratio seed", no_dropout},
    {"Elu", 1, 1, "alpha", elu_as},
    {"Equal", 2, 2, "", binary<eq>},
    {"Erf", 1, 1, "", error_function},
    {"Exp", 1, 1, "", unary<exp>},
    {"Floor", 1, 1, "", unary<floor>},
    {"Gelu", 1, 1, "approximate", gelu_as},
    {"Greater", 2, 2, "", binary<gt>},
    {"GreaterOrEqual", 2, 2, "", binary<ge>},
    {"HardSigmoid", 1, 1, "alpha beta", hard_sigmoid},
    {"HardSwish", 1, 1, "", unary<hardswish>},
    {"Identity", 1, 1, "", same},
    {"IsInf", 1, 1, "detect_negative detect_positive", is_infinite},
    {"IsNaN", 1, 1, "", unary<isnan>},
    {"LeakyRelu", 1, 1, "alpha", leaky},
    {"Less", 2, 2, "", binary<lt>},
    {"LessOrEqual", 2, 2, "", binary<le>},
    {"Log", 1, 1, "", unary<log>},
    {"LogSoftmax", 1, 1, "axis", log_soft_max},
    {"Max", 1, -1, "", folded<maximum>},
    {"Mean", 1, -1, "", mean_all},
    {"Min", 1, -1, "", folded<minimum>},
    {"Mish", 1, 1, "", unary<mish>},
    {"Mod", 2, 2, "fmod", modulo},
    {"Mul", 2, 2, "", binary<mul>},
    {"Neg", 1, 1, "", unary<neg>},
    {"Not", 1, 1, "", unary<logical_not>},
    {"Or", 2, 2, "", binary<logical_or>},
    {"PRelu", 2, 2, "", prelu_as},
    {"Pow", 2, 2, "", power},
    {"Reciprocal", 1, 1, "", unary<reciprocal>},
    {"Relu", 1, 1, "", unary<relu>},
    {"Round", 1, 1, "", rounded},
    {"Selu", 1, 1, "alpha gamma", selu_as},
    {"Shrink", 1, 1, "bias lambd", shrink},
    {"Sigmoid", 1, 1, "", unary<sigmoid>},
    {"Sign", 1, 1, "", unary<sign>},
    {"Sin", 1, 1, "", unary<sin>},
    {"Sinh", 1, 1, "", unary<sinh>},
    {"Softmax", 1, 1, "axis", soft_max},
    {"Softplus", 1, 1, "", soft_plus},
    {"Softsign", 1, 1, "", unary<softsign>},
    {"Sqrt", 1, 1, "", unary<sqrt>},
    {"Sub", 2, 2, "", binary<subtracted>},
    {"Sum", 1, -1, "", folded<add_all>},
    {"Swish", 1, 1, "alpha", sigmoid_weighted},
    {"Tan", 1, 1, "", unary<tan>},
    {"Tanh", 1, 1, "", unary<tanh>},
    {"ThresholdedRelu", 1, 1, "alpha", thresholded},
    {"Where", 3, 3, "", choose},
    {"Xor", 2, 2, "", binary<logical_xor>},
};

}  // namespace

std::span<const OpImport> pointwise_imports() { return kRows; }

}  // namespace tensora::onnx
