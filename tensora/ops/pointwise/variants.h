#pragma once

// Pointwise functions whose arguments choose between functors, or are optional. Functors without
// such choices have generated functions, in functions.h.

#include "tensora/core/tensor.h"

namespace tensora {

/// `self` kept within [min, max]; either bound may be left out, not both. NaN passes.
Tensor clamp(const Tensor& self, std::optional<Scalar> min, std::optional<Scalar> max = {});
Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max = {});
const Tensor& clamp_(const Tensor& self, std::optional<Scalar> min, std::optional<Scalar> max = {});
const Tensor& clamp_(const Tensor& self, const Tensor& min, const Tensor& max = {});

Tensor clamp_min(const Tensor& self, const Tensor& min);
Tensor clamp_min(const Tensor& self, Scalar min);
const Tensor& clamp_min_(const Tensor& self, const Tensor& min);
const Tensor& clamp_min_(const Tensor& self, Scalar min);
Tensor clamp_max(const Tensor& self, const Tensor& max);
Tensor clamp_max(const Tensor& self, Scalar max);
const Tensor& clamp_max_(const Tensor& self, const Tensor& max);
const Tensor& clamp_max_(const Tensor& self, Scalar max);

/// Of bools it is int64, as in PyTorch.
Tensor square(const Tensor& self);
const Tensor& square_(const Tensor& self);

/// The quotient, rounded towards zero ("trunc") or down ("floor") and then of the operands' own
/// dtype; unrounded without a mode.
Tensor div(const Tensor& self, const Tensor& other, std::optional<std::string_view> rounding_mode);
Tensor div(const Tensor& self, Scalar other, std::optional<std::string_view> rounding_mode);
const Tensor& div_(const Tensor& self, const Tensor& other,
                   std::optional<std::string_view> rounding_mode);
const Tensor& div_(const Tensor& self, Scalar other, std::optional<std::string_view> rounding_mode);

/// Integers stay integers; an integer tensor to a negative integer power is an error, as number.
Tensor pow(const Tensor& self, const Tensor& exponent);
Tensor pow(const Tensor& self, Scalar exponent);
Tensor pow(Scalar self, const Tensor& exponent);
const Tensor& pow_(const Tensor& self, const Tensor& exponent);
const Tensor& pow_(const Tensor& self, Scalar exponent);

/// To `decimals` digits after the point, or before it if negative; halves go to the even digit.
Tensor round(const Tensor& self, int64_t decimals);
const Tensor& round_(const Tensor& self, int64_t decimals);

/// Replaces NaN by `nan`, infinities by the largest finite numbers unless others are given.
Tensor nan_to_num(const Tensor& self, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
const Tensor& nan_to_num_(const Tensor& self, double nan = 0, std::optional<double> posinf = {},
                          std::optional<double> neginf = {});

/// log(x / (1 - x)), with x clamped to [eps, 1 - eps] if eps is given.
Tensor logit(const Tensor& self, std::optional<double> eps = {});
const Tensor& logit_(const Tensor& self, std::optional<double> eps = {});

/// The n-th derivative of digamma.
Tensor polygamma(int64_t n, const Tensor& self);

/// 0 for negative, 1 for positive elements, and `values` at zero.
Tensor heaviside(const Tensor& self, const Tensor& values);
const Tensor& heaviside_(const Tensor& self, const Tensor& values);

/// Inverts the bits of integers; negates bool.
Tensor bitwise_not(const Tensor& self);
const Tensor& bitwise_not_(const Tensor& self);

/// `approximate` is "none" (by erf) or "tanh".
Tensor gelu(const Tensor& self, std::string_view approximate = "none");
Tensor celu(const Tensor& self, Scalar alpha = 1.0);
const Tensor& celu_(const Tensor& self, Scalar alpha = 1.0);
Tensor softshrink(const Tensor& self, Scalar lambd = 0.5);

/// Whether |self - other| <= atol + rtol * |other|, element by element; infinities are close to
/// themselves, NaN to NaN only with `equal_nan`.
Tensor isclose(const Tensor& self, const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
/// Whether all elements are close; whether shapes and all elements are equal. Wait for the device.
bool allclose(const Tensor& self, const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
bool equal(const Tensor& self, const Tensor& other);

}  // namespace tensora
