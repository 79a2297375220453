// Registers nothing: functions of other ops.
#include "tensora/ops/creation/windows.h"

#include <numbers>

#include "tensora/autograd/grad_mode.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// Calls window(t) with the points' places in float64, from 0 at the first to 1 at the last.
template <class Window>
Tensor window_of(std::string_view op, int64_t length, bool periodic, const TensorOptions& options,
                 const Window& window) {
  const DType dtype = options.dtype();
  check(is_floating_point(dtype), op, ": expected a floating-point dtype, got ", dtype);
  check(length >= 0, op, ": window_length must not be negative, got ", length);
  TensorOptions filled = options;
  filled.requires_grad = false;
  const no_grad silent;
  if (length <= 1) return ones({length}, filled).requires_grad_(options.requires_grad);
  filled.dtype = kFloat64;
  const int64_t points = periodic ? length + 1 : length;
  const Tensor places = arange(0, length, filled) / static_cast<double>(points - 1);
  return to(window(places), dtype).requires_grad_(options.requires_grad);
}

Tensor cosine(const Tensor& places, double turns) {
  return cos(places * (2 * std::numbers::pi * turns));
}

}  // namespace

Tensor hann_window(int64_t window_length, bool periodic, const TensorOptions& options) {
  return window_of("hann_window", window_length, periodic, options,
                   [](const Tensor& t) { return (1 - cosine(t, 1)) * 0.5; });
}

Tensor hamming_window(int64_t window_length, bool periodic, double alpha, double beta,
                      const TensorOptions& options) {
  return window_of("hamming_window", window_length, periodic, options,
                   [&](const Tensor& t) { return alpha - cosine(t, 1) * beta; });
}

Tensor blackman_window(int64_t window_length, bool periodic, const TensorOptions& options) {
  return window_of("blackman_window", window_length, periodic, options,
                   [](const Tensor& t) { return 0.42 - cosine(t, 1) * 0.5 + cosine(t, 2) * 0.08; });
}

Tensor bartlett_window(int64_t window_length, bool periodic, const TensorOptions& options) {
  return window_of("bartlett_window", window_length, periodic, options,
                   [](const Tensor& t) { return 1 - abs(t * 2 - 1); });
}

}  // namespace tensora
