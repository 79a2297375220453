#include <cmath>
#include <limits>
#include <numbers>

#include "tensora/onnx/op_call.h"

namespace tensora::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_bool(const OpCall& c) { return c.compute_dtype() == DType::boolean; }
bool is_floating(const OpCall& c) { return is_floating_point(c.compute_dtype()); }

Expr scaled(OpCall& c, const Expr& x, double factor) {
  return factor == 1 ? x : x * c.constant(factor);
}

// ---- arithmetic --------------------------------------------------------------------------------

Exprs add(OpCall& c) {
  if (is_bool(c)) return {c.emit("Or", {c.operand(0), c.operand(1)})};
  return {c.operand(0) + scaled(c, c.operand(1), c.number("alpha"))};
}
Exprs sub(OpCall& c) { return {c.operand(0) - scaled(c, c.operand(1), c.number("alpha"))}; }
Exprs mul(OpCall& c) {
  if (is_bool(c)) return {c.emit("And", {c.operand(0), c.operand(1)})};
  return {c.operand(0) * c.operand(1)};
}

Expr truncated(OpCall& c, const Expr& x) {
  return c.emit("Sign", {x}) * c.emit("Floor", {c.emit("Abs", {x})});
}
Expr modulo(OpCall& c, bool like_c) {
  return c.emit("Mod", {c.operand(0), c.operand(1)},
                {AttributeProto::of("fmod", int64_t{like_c ? 1 : 0})});
}
Exprs div_trunc(OpCall& c) {
  const Expr quotient = c.operand(0) / c.operand(1);  // of integers, it is truncated
  return {is_floating(c) ? truncated(c, quotient) : quotient};
}
Exprs floor_divide(OpCall& c) {
  if (is_floating(c)) return {c.emit("Floor", {c.operand(0) / c.operand(1)})};
  return {(c.operand(0) - modulo(c, false)) / c.operand(1)};
}
Exprs remainder(OpCall& c) {
  if (!is_floating(c)) return {modulo(c, false)};
  const Expr a = c.operand(0), b = c.operand(1);
  return {a - b * c.emit("Floor", {a / b})};
}
Exprs fmod(OpCall& c) { return {modulo(c, true)}; }
Exprs square(OpCall& c) { return {c.operand(0) * c.operand(0)}; }
Exprs cube(OpCall& c) { return {c.operand(0) * c.operand(0) * c.operand(0)}; }
Exprs rsqrt(OpCall& c) { return {c.emit("Reciprocal", {c.emit("Sqrt", {c.operand(0)})})}; }
Exprs trunc(OpCall& c) { return {is_floating(c) ? truncated(c, c.operand(0)) : c.operand(0)}; }
Exprs frac(OpCall& c) { return {c.operand(0) - truncated(c, c.operand(0))}; }
Exprs addcmul(OpCall& c) {
  return {c.operand(0) + scaled(c, c.operand(1) * c.operand(2), c.number("value"))};
}
Exprs addcdiv(OpCall& c) {
  return {c.operand(0) + scaled(c, c.operand(1) / c.operand(2), c.number("value"))};
}
Exprs lerp(OpCall& c) { return {c.operand(0) + c.operand(2) * (c.operand(1) - c.operand(0))}; }
Exprs squared_error(OpCall& c) {
  const Expr difference = c.operand(0) - c.operand(1);
  return {difference * difference};
}
Exprs absolute_error(OpCall& c) { return {c.emit("Abs", {c.operand(0) - c.operand(1)})}; }

// ---- exponentials ------------------------------------------------------------------------------

Exprs exp2(OpCall& c) { return {c.emit("Pow", {c.constant(2), c.operand(0)})}; }
Exprs expm1(OpCall& c) { return {c.emit("Exp", {c.operand(0)}) - c.constant(1)}; }
Exprs log1p(OpCall& c) { return {c.emit("Log", {c.operand(0) + c.constant(1)})}; }
Exprs log2(OpCall& c) {
  return {c.emit("Log", {c.operand(0)}) * c.constant(1 / std::numbers::ln2)};
}
Exprs log10(OpCall& c) {
  return {c.emit("Log", {c.operand(0)}) * c.constant(1 / std::numbers::ln10)};
}
Exprs logaddexp(OpCall& c) {
  const Expr a = c.operand(0), b = c.operand(1);
  const Expr distance = c.emit("Neg", {c.emit("Abs", {a - b})});
  return {c.emit("Max", {a, b}) + c.emit("Log", {c.emit("Exp", {distance}) + c.constant(1)})};
}
Exprs erfc(OpCall& c) { return {c.constant(1) - c.emit("Erf", {c.operand(0)})}; }
Exprs deg2rad(OpCall& c) { return {c.operand(0) * c.constant(std::numbers::pi / 180)}; }
Exprs rad2deg(OpCall& c) { return {c.operand(0) * c.constant(180 / std::numbers::pi)}; }

// ---- comparisons and choices -------------------------------------------------------------------

Exprs compared(OpCall& c, std::string_view onnx, bool is_negated) {
  // ONNX orders numbers only; as integers, false is below true.
  const DType dtype = is_bool(c) && onnx != "Equal" ? DType::int32 : c.compute_dtype();
  const Expr result = c.emit(onnx, {c.in(0, dtype), c.in(1, dtype)});
  return {is_negated ? c.emit("Not", {result}) : result};
}
Exprs eq(OpCall& c) { return compared(c, "Equal", false); }
Exprs ne(OpCall& c) { return compared(c, "Equal", true); }
Exprs lt(OpCall& c) { return compared(c, "Less", false); }
Exprs le(OpCall& c) { return compared(c, "LessOrEqual", false); }
Exprs gt(OpCall& c) { return compared(c, "Greater", false); }
Exprs ge(OpCall& c) { return compared(c, "GreaterOrEqual", false); }

Exprs logical(OpCall& c, std::string_view onnx) {
  Exprs inputs;
  for (size_t i = 0; i < c.inputs(); ++i) inputs.push_back(c.in(i, DType::boolean));
  return {c.emit(onnx, inputs)};
}
Exprs logical_not(OpCall& c) { return logical(c, "Not"); }
Exprs logical_and(OpCall& c) { return logical(c, "And"); }
Exprs logical_or(OpCall& c) { return logical(c, "Or"); }
Exprs logical_xor(OpCall& c) { return logical(c, "Xor"); }
Exprs bitwise(OpCall& c, std::string_view of_bools, std::string_view of_integers) {
  return is_bool(c) ? logical(c, of_bools)
                    : Exprs{c.inputs() == 1 ? c.emit(of_integers, {c.operand(0)})
                                            : c.emit(of_integers, {c.operand(0), c.operand(1)})};
}
Exprs bitwise_not(OpCall& c) { return bitwise(c, "Not", "BitwiseNot"); }
Exprs bitwise_and(OpCall& c) { return bitwise(c, "And", "BitwiseAnd"); }
Exprs bitwise_or(OpCall& c) { return bitwise(c, "Or", "BitwiseOr"); }
Exprs bitwise_xor(OpCall& c) { return bitwise(c, "Xor", "BitwiseXor"); }

// Integers are neither infinite nor NaN.
Exprs isnan(OpCall& c) {
  if (is_floating(c)) return {c.emit("IsNaN", {c.operand(0)})};
  return {c.emit("Not", {c.emit("Equal", {c.operand(0), c.operand(0)})})};
}
Expr is_infinite(OpCall& c) {
  const Expr size = c.emit("Abs", {c.operand(0)});
  return c.emit("Equal", {size, c.constant(kInfinity)});
}
Exprs isinf(OpCall& c) { return is_floating(c) ? Exprs{is_infinite(c)} : isnan(c); }
Exprs isfinite(OpCall& c) {
  if (!is_floating(c)) return {c.emit("Equal", {c.operand(0), c.operand(0)})};
  return {c.emit("Less", {c.emit("Abs", {c.operand(0)}), c.constant(kInfinity)})};
}

Exprs where(OpCall& c) {
  return {c.emit("Where", {c.in(0, DType::boolean), c.operand(1), c.operand(2)})};
}
Exprs masked_fill(OpCall& c) {
  return {c.emit("Where", {c.in(1, DType::boolean), c.constant(c.number("value")), c.operand(0)})};
}
Exprs clamp_min(OpCall& c) { return {c.emit("Max", {c.operand(0), c.operand(1)})}; }
Exprs clamp_max(OpCall& c) { return {c.emit("Min", {c.operand(0), c.operand(1)})}; }
Exprs clamp(OpCall& c) {
  return {c.emit("Min", {c.emit("Max", {c.operand(0), c.operand(1)}), c.operand(2)})};
}
Exprs nan_to_num(OpCall& c) {
  const auto replaced = [&](const Expr& x, const Expr& where, const char* by) {
    return c.emit("Where", {where, c.constant(c.number(by)), x});
  };
  const auto equals = [&](const Expr& x, double value) {
    return c.emit("Equal", {x, c.constant(value)});
  };
  const Expr x = c.operand(0);
  const Expr numbers = replaced(x, c.emit("IsNaN", {x}), "nan");
  const Expr below = replaced(numbers, equals(x, kInfinity), "posinf");
  return {replaced(below, equals(x, -kInfinity), "neginf")};
}

// Integers are whole.
Exprs rounded(OpCall& c, std::string_view onnx) {
  return {is_floating(c) ? c.emit(onnx, {c.operand(0)}) : c.operand(0)};
}
Exprs floor(OpCall& c) { return rounded(c, "Floor"); }
Exprs ceil(OpCall& c) { return rounded(c, "Ceil"); }
Exprs round(OpCall& c) { return rounded(c, "Round"); }

constexpr OpExport kRows[] = {
    {"abs", "Abs"},
    {"absolute_error", "Sub, Abs", absolute_error},
    {"acos", "Acos"},
    {"acosh", "Acosh"},
    {"add", "Add", add},
    {"addcdiv", "Div, Add", addcdiv},
    {"addcmul", "Mul, Add", addcmul},
    {"asin", "Asin"},
    {"asinh", "Asinh"},
    {"atan", "Atan"},
    {"atanh", "Atanh"},
    {"bitwise_and", "BitwiseAnd", bitwise_and},
    {"bitwise_not", "BitwiseNot", bitwise_not},
    {"bitwise_or", "BitwiseOr", bitwise_or},
    {"bitwise_xor", "BitwiseXor", bitwise_xor},
    {"ceil", "Ceil", ceil},
    {"clamp", "Max, Min", clamp},
    {"clamp_max", "Min", clamp_max},
    {"clamp_min", "Max", clamp_min},
    {"cos", "Cos"},
    {"cosh", "Cosh"},
    {"cube", "Mul", cube},
    {"deg2rad", "Mul", deg2rad},
    {"div", "Div"},
    {"div_trunc", "Div, Floor", div_trunc},
    {"eq", "Equal", eq},
    {"erf", "Erf"},
    {"erfc", "Erf, Sub", erfc},
    {"exp", "Exp"},
    {"exp2", "Pow", exp2},
    {"expm1", "Exp, Sub", expm1},
    {"floor", "Floor", floor},
    {"floor_divide", "Div, Floor", floor_divide},
    {"fmod", "Mod", fmod},
    {"frac", "Floor, Sub", frac},
    {"ge", "GreaterOrEqual", ge},
    {"gt", "Greater", gt},
    {"isfinite", "Abs, Less", isfinite},
    {"isinf", "Abs, Equal", isinf},
    {"isnan", "IsNaN", isnan},
    {"le", "LessOrEqual", le},
    {"lerp", "Sub, Mul, Add", lerp},
    {"log", "Log"},
    {"log10", "Log, Mul", log10},
    {"log1p", "Add, Log", log1p},
    {"log2", "Log, Mul", log2},
    {"logaddexp", "Max, Exp, Log", logaddexp},
    {"logical_and", "And", logical_and},
    {"logical_not", "Not", logical_not},
    {"logical_or", "Or", logical_or},
    {"logical_xor", "Xor", logical_xor},
    {"lt", "Less", lt},
    {"masked_fill", "Where", masked_fill},
    {"maximum", "Max"},
    {"minimum", "Min"},
    {"mul", "Mul", mul},
    {"nan_to_num", "IsNaN, Where", nan_to_num},
    {"ne", "Equal, Not", ne},
    {"neg", "Neg"},
    {"pow", "Pow"},
    {"rad2deg", "Mul", rad2deg},
    {"reciprocal", "Reciprocal"},
    {"remainder", "Mod", remainder},
    {"round", "Round", round},
    {"rsqrt", "Sqrt, Reciprocal", rsqrt},
    {"sign", "Sign"},
    {"sin", "Sin"},
    {"sinh", "Sinh"},
    {"sqrt", "Sqrt"},
    {"square", "Mul", square},
    {"squared_error", "Sub, Mul", squared_error},
    {"sub", "Sub", sub},
    {"tan", "Tan"},
    {"tanh", "Tanh"},
    {"trunc", "Abs, Floor, Sign", trunc},
    {"where", "Where", where},
};

}  // namespace

std::span<const OpExport> pointwise_exports() { return kRows; }

}  // namespace tensora::onnx
