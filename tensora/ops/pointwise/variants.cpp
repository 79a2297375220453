// Registers nothing: functions of other ops.
#include "tensora/ops/pointwise/variants.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensora/core/fit_scalar.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/complex/complex_forms.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/define_pointwise.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/any_all.h"

namespace tensora {
namespace {

using namespace functors;

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 3.3895313892515355e38;
    case DType::float32:
      return 3.4028234663852886e38;
    default:
      return 1.7976931348623157e308;
  }
}

NanToNum nan_to_num_functor(const Tensor& self, double nan, std::optional<double> posinf,
                            std::optional<double> neginf) {
  const double largest = largest_finite(self.dtype());
  return {{}, nan, posinf.value_or(largest), neginf.value_or(-largest)};
}

enum class Rounding { none, trunc, floor };

Rounding parse_rounding(std::optional<std::string_view> mode) {
  if (!mode) return Rounding::none;
  if (*mode == "trunc") return Rounding::trunc;
  check(*mode == "floor", "div: rounding_mode must be none, \"trunc\" or \"floor\", got \"", *mode,
        "\"");
  return Rounding::floor;
}

RoundDecimals round_functor(int64_t decimals) {
  double by = 1;
  for (int64_t i = 0; i < std::min<int64_t>(std::abs(decimals), 400); ++i) by *= 10;
  return {{}, decimals < 0 ? 1 / by : by};
}

struct Limits {
  int64_t least, most;
};
Limits limits_of(DType dtype) {
  if (dtype == kUInt8) return {0, 255};
  const int bits = 8 * static_cast<int>(element_size(dtype));
  return {std::numeric_limits<int64_t>::min() >> (64 - bits),
          std::numeric_limits<int64_t>::max() >> (64 - bits)};
}

// A bound as an element of integers: one that no element can exceed is moved to the last number of
// the dtype, and one that every element exceeds is refused.
Scalar fitted_bound(const Tensor& self, Scalar bound, bool is_min) {
  if (bound.is_floating() || bound.is_complex() || !is_integral(self.dtype())) return bound;
  const auto [least, most] = limits_of(self.dtype());
  const auto value = bound.to<int64_t>();
  check(is_min ? value <= most : value >= least, "clamp: ", is_min ? "min" : "max", " value ",
        value, " is out of the range of ", self.dtype());
  return std::clamp(value, least, most);
}
Tensor wrapped_min(const Tensor& self, Scalar min) {
  return wrap_number(fitted_bound(self, min, true));
}
Tensor wrapped_max(const Tensor& self, Scalar max) {
  return wrap_number(fitted_bound(self, max, false));
}

void check_bounds(bool has_min, bool has_max) {
  check(has_min || has_max, "clamp: at least one of min and max must be given");
}

bool is_bool_power(const Tensor& self, Scalar exponent) {
  return self.dtype() == kBool && exponent.kind() == Scalar::Kind::boolean;
}

void check_integer_power(const Tensor& self, Scalar exponent) {
  check(is_differentiable(self.dtype()) || exponent.is_floating() || exponent.is_complex() ||
            exponent.to<int64_t>() >= 0,
        "pow: integers to negative integer powers are not allowed, got exponent ",
        exponent.to<int64_t>());
  if (is_integral(self.dtype()) && !exponent.is_floating())
    fit_scalar(exponent, self.dtype(), "pow");
}

void check_same_dtype(std::string_view op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), op, ": expected operands of one dtype, got ", a.dtype(), " and ",
        b.dtype());
}

void check_celu(Scalar alpha) { check(!(alpha == 0), "celu: alpha must not be 0"); }

// The op takes logarithms of complex numbers, which makes NaN of powers of 0: those are 0 where the
// exponent's real part is positive.
Tensor complex_power(const Tensor& self, const Tensor& exponent) {
  const Tensor is_zero = logical_and(eq(self, 0), gt(real(exponent), 0));
  // A number keeps the rank that the result's dtype depends on.
  const Arg operands[] = {self, exponent};
  const Tensor base = to(self, result_type(operands));
  return where(is_zero, 0, apply(pointwise_op<Pow>(), {where(is_zero, 1, base), exponent}));
}

}  // namespace

Tensor clamp(const Tensor& self, std::optional<Scalar> min, std::optional<Scalar> max) {
  check_bounds(min.has_value(), max.has_value());
  if (!max) return clamp_min(self, *min);
  if (!min) return clamp_max(self, *max);
  return apply(pointwise_op<Clamp>(), {self, wrapped_min(self, *min), wrapped_max(self, *max)},
               {{}, true});
}

Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max) {
  check_bounds(min.defined(), max.defined());
  if (!max.defined()) return clamp_min(self, min);
  if (!min.defined()) return clamp_max(self, max);
  return apply(pointwise_op<Clamp>(), {self, min, max});
}

const Tensor& clamp_(const Tensor& self, std::optional<Scalar> min, std::optional<Scalar> max) {
  check_bounds(min.has_value(), max.has_value());
  if (!max) return clamp_min_(self, *min);
  if (!min) return clamp_max_(self, *max);
  return apply_inplace(pointwise_op<Clamp>(),
                       {self, wrapped_min(self, *min), wrapped_max(self, *max)}, {{}, true});
}

const Tensor& clamp_(const Tensor& self, const Tensor& min, const Tensor& max) {
  check_bounds(min.defined(), max.defined());
  if (!max.defined()) return clamp_min_(self, min);
  if (!min.defined()) return clamp_max_(self, max);
  return apply_inplace(pointwise_op<Clamp>(), {self, min, max});
}

Tensor clamp_min(const Tensor& self, const Tensor& min) {
  return apply(pointwise_op<ClampMin>(), {self, min});
}
Tensor clamp_min(const Tensor& self, Scalar min) {
  return apply(pointwise_op<ClampMin>(), {self, wrapped_min(self, min)}, {{}, true});
}
const Tensor& clamp_min_(const Tensor& self, const Tensor& min) {
  return apply_inplace(pointwise_op<ClampMin>(), {self, min});
}
const Tensor& clamp_min_(const Tensor& self, Scalar min) {
  return apply_inplace(pointwise_op<ClampMin>(), {self, wrapped_min(self, min)}, {{}, true});
}

Tensor clamp_max(const Tensor& self, const Tensor& max) {
  return apply(pointwise_op<ClampMax>(), {self, max});
}
Tensor clamp_max(const Tensor& self, Scalar max) {
  return apply(pointwise_op<ClampMax>(), {self, wrapped_max(self, max)}, {{}, true});
}
const Tensor& clamp_max_(const Tensor& self, const Tensor& max) {
  return apply_inplace(pointwise_op<ClampMax>(), {self, max});
}
const Tensor& clamp_max_(const Tensor& self, Scalar max) {
  return apply_inplace(pointwise_op<ClampMax>(), {self, wrapped_max(self, max)}, {{}, true});
}

Tensor square(const Tensor& self) {
  if (self.dtype() == kBool) return square(to(self, kInt64));
  return apply(pointwise_op<Square>(), {self});
}
const Tensor& square_(const Tensor& self) { return apply_inplace(pointwise_op<Square>(), {self}); }

Tensor div(const Tensor& self, const Tensor& other, std::optional<std::string_view> rounding_mode) {
  switch (parse_rounding(rounding_mode)) {
    case Rounding::trunc:
      return apply(pointwise_op<DivTrunc>(), {self, other});
    case Rounding::floor:
      return floor_divide(self, other);
    default:
      return div(self, other);
  }
}

Tensor div(const Tensor& self, Scalar other, std::optional<std::string_view> rounding_mode) {
  return div(self, wrap_number(other), rounding_mode);
}

const Tensor& div_(const Tensor& self, const Tensor& other,
                   std::optional<std::string_view> rounding_mode) {
  switch (parse_rounding(rounding_mode)) {
    case Rounding::trunc:
      return apply_inplace(pointwise_op<DivTrunc>(), {self, other});
    case Rounding::floor:
      return floor_divide_(self, other);
    default:
      return div_(self, other);
  }
}

const Tensor& div_(const Tensor& self, Scalar other,
                   std::optional<std::string_view> rounding_mode) {
  return div_(self, wrap_number(other), rounding_mode);
}

Tensor pow(const Tensor& self, const Tensor& exponent) {
  if (ComplexForms::suit({self, exponent})) return complex_power(self, exponent);
  return apply(pointwise_op<Pow>(), {self, exponent});
}

Tensor pow(const Tensor& self, Scalar exponent) {
  if (is_autocast_enabled())
    return autocast_call(
        "pow", {Autocast::as_is, Autocast::full},
        [&](const Tensor& base) { return pow(base, exponent); }, self);
  if (is_bool_power(self, exponent)) return logical_or(self, logical_not(wrap_number(exponent)));
  check_integer_power(self, exponent);
  const bool keeps_dtype =
      self.dtype() != kBool && (is_differentiable(self.dtype()) || !exponent.is_floating());
  const bool floating = is_differentiable(self.dtype());
  if (keeps_dtype && exponent == 2) return square(self);
  if (keeps_dtype && exponent == 3) return apply(pointwise_op<Cube>(), {self});
  if (floating && exponent == 0.5) return sqrt(self);
  if (floating && exponent == -0.5) return rsqrt(self);
  if (floating && exponent == -1) return reciprocal(self);
  if (self.is_complex() && exponent == 0) return pow(where(eq(self, 0), 1, self), wrap_number(0));
  return pow(self, wrap_number(exponent));
}

Tensor pow(Scalar self, const Tensor& exponent) { return pow(wrap_number(self), exponent); }

const Tensor& pow_(const Tensor& self, const Tensor& exponent) {
  if (ComplexForms::suit({self}))
    return copy_(self, pow(ComplexForms::kept({self, exponent}), exponent));
  return apply_inplace(pointwise_op<Pow>(), {self, exponent});
}

const Tensor& pow_(const Tensor& self, Scalar exponent) {
  if (is_bool_power(self, exponent)) return logical_or_(self, logical_not(wrap_number(exponent)));
  check_integer_power(self, exponent);
  if (!is_differentiable(self.dtype())) return pow_(self, wrap_number(exponent));
  if (self.is_complex()) return copy_(self, pow(ComplexForms::kept({self}), exponent));
  if (exponent == 2) return square_(self);
  if (exponent == 3) return apply_inplace(pointwise_op<Cube>(), {self});
  if (exponent == 0.5) return sqrt_(self);
  if (exponent == -0.5) return rsqrt_(self);
  if (exponent == -1) return reciprocal_(self);
  return pow_(self, wrap_number(exponent));
}

Tensor round(const Tensor& self, int64_t decimals) {
  return apply(pointwise_op<RoundDecimals>(), {self}, round_functor(decimals));
}

const Tensor& round_(const Tensor& self, int64_t decimals) {
  return apply_inplace(pointwise_op<RoundDecimals>(), {self}, round_functor(decimals));
}

Tensor nan_to_num(const Tensor& self, double nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  if (!self.is_floating_point()) return clone(self);
  return apply(pointwise_op<NanToNum>(), {self}, nan_to_num_functor(self, nan, posinf, neginf));
}

const Tensor& nan_to_num_(const Tensor& self, double nan, std::optional<double> posinf,
                          std::optional<double> neginf) {
  if (!self.is_floating_point()) return self;
  return apply_inplace(pointwise_op<NanToNum>(), {self},
                       nan_to_num_functor(self, nan, posinf, neginf));
}

Tensor logit(const Tensor& self, std::optional<double> eps) {
  return apply(pointwise_op<Logit>(), {self}, Logit{{}, eps.value_or(-1)});
}

const Tensor& logit_(const Tensor& self, std::optional<double> eps) {
  return apply_inplace(pointwise_op<Logit>(), {self}, Logit{{}, eps.value_or(-1)});
}

Tensor polygamma(int64_t n, const Tensor& self) {
  check(n >= 0 && n < 100, "polygamma: n must be in [0, 100), got ", n);
  if (n == 0) return digamma(self);
  return apply(pointwise_op<Polygamma>(), {self}, Polygamma{{}, static_cast<int>(n)});
}

Tensor heaviside(const Tensor& self, const Tensor& values) {
  check_same_dtype("heaviside", self, values);
  return apply(pointwise_op<Heaviside>(), {self, values});
}

const Tensor& heaviside_(const Tensor& self, const Tensor& values) {
  check_same_dtype("heaviside_", self, values);
  return apply_inplace(pointwise_op<Heaviside>(), {self, values});
}

Tensor bitwise_not(const Tensor& self) {
  if (self.dtype() == kBool) return logical_not(self);
  return apply(pointwise_op<BitwiseNot>(), {self});
}

const Tensor& bitwise_not_(const Tensor& self) {
  if (self.dtype() == kBool) return logical_not_(self);
  return apply_inplace(pointwise_op<BitwiseNot>(), {self});
}

Tensor gelu(const Tensor& self, std::string_view approximate) {
  if (approximate == "none") return apply(pointwise_op<Gelu>(), {self});
  check(approximate == "tanh", "gelu: approximate must be \"none\" or \"tanh\", got \"",
        approximate, "\"");
  return apply(pointwise_op<GeluTanh>(), {self});
}

Tensor celu(const Tensor& self, Scalar alpha) {
  check_celu(alpha);
  return apply(pointwise_op<Celu>(), {self}, Celu{{}, alpha});
}

const Tensor& celu_(const Tensor& self, Scalar alpha) {
  check_celu(alpha);
  return apply_inplace(pointwise_op<Celu>(), {self}, Celu{{}, alpha});
}

Tensor softshrink(const Tensor& self, Scalar lambd) {
  const double limit = lambd.to<double>();
  check(limit >= 0, "softshrink: lambd must not be negative, got ", limit);
  check(std::isfinite(limit), "softshrink: lambd must be finite, got ", limit);
  if (self.is_floating_point()) fit_scalar(lambd, self.dtype(), "softshrink");
  return apply(pointwise_op<Softshrink>(), {self}, Softshrink{{}, lambd});
}

Tensor isclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  check_same_dtype("isclose", self, other);
  check(rtol >= 0, "isclose: rtol must not be negative, got ", rtol);
  check(atol >= 0, "isclose: atol must not be negative, got ", atol);
  if (self.is_complex()) {
    const Tensor distance = abs(self - other), same = eq(self, other);
    const Tensor near = isfinite(distance) & (distance <= abs(other) * rtol + atol);
    return equal_nan ? same | near | (isnan(self) & isnan(other)) : same | near;
  }
  const Isclose functor{{}, rtol, atol, equal_nan};
  if (self.is_floating_point()) return apply(pointwise_op<Isclose>(), {self, other}, functor);
  // Integers need the tolerances in floating point.
  return apply(pointwise_op<Isclose>(), {to(self, kFloat64), to(other, kFloat64)}, functor);
}

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  return called_as("allclose",
                   [&]() { return all(isclose(self, other, rtol, atol, equal_nan)).item<bool>(); });
}

bool equal(const Tensor& self, const Tensor& other) {
  return self.sizes() == other.sizes() && all(eq(self, other)).item<bool>();
}

}  // namespace tensora
