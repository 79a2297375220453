#include "tensora/ops/creation/windows.h"

#include <cmath>
#include <numbers>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

using Window = std::function<Tensor(int64_t, bool, const TensorOptions&)>;

void add(Cases& cases, const char* op, const Window& window, double (*formula)(double)) {
  for (int64_t length : {0, 1, 2, 9})
    for (bool periodic : {false, true})
      cases.add({.op = op,
                 .name = concat(length, periodic ? " periodic" : " symmetric"),
                 .run =
                     [=](In) {
                       return one(window(length, periodic, {.dtype = dtype(), .device = device()}));
                     },
                 .reference =
                     [=](Arrays) {
                       Array out({length}, 1);
                       const auto steps = double(periodic ? length : length - 1);
                       for (int64_t i = 0; length > 1 && i < length; ++i)
                         out[i] = formula(double(i) / steps);
                       return one(out);
                     },
                 .tolerance = 4,
                 .opt_out = {{Mode::grad, "has no inputs"},
                             {Mode::view, "has no inputs"},
                             {Mode::inplace, "has no inputs"}}});
  cases.error(op, "a negative length", "must not be negative", [window] { window(-1, true, {}); });
  cases.error(op, "integers", "floating-point", [window] { window(3, true, {.dtype = kInt64}); });
}

double cosine(double t) { return std::cos(2 * std::numbers::pi * t); }

}  // namespace

void windows_cases(Cases& cases) {
  add(
      cases, "hann_window",
      [](int64_t n, bool p, const TensorOptions& o) { return hann_window(n, p, o); },
      [](double t) { return 0.5 - 0.5 * cosine(t); });
  add(
      cases, "hamming_window",
      [](int64_t n, bool p, const TensorOptions& o) { return hamming_window(n, p, 0.5, 0.4, o); },
      [](double t) { return 0.5 - 0.4 * cosine(t); });
  add(
      cases, "blackman_window",
      [](int64_t n, bool p, const TensorOptions& o) { return blackman_window(n, p, o); },
      [](double t) { return 0.42 - 0.5 * cosine(t) + 0.08 * cosine(2 * t); });
  add(
      cases, "bartlett_window",
      [](int64_t n, bool p, const TensorOptions& o) { return bartlett_window(n, p, o); },
      [](double t) { return t < 0.5 ? 2 * t : 2 - 2 * t; });
}

}  // namespace tensora::suite
