#include "tensora/ops/random/distributions.h"

#include <cmath>
#include <numbers>

#include "tests/suite/cases.h"

// The references draw the uniform and normal numbers that the same seed gives, which random_cases
// checks, and compute from them in double with the C library's functions.

namespace tensora::suite {
namespace {

constexpr uint64_t kSeed = 0x0fed'cba9'8765'4321;

// The numbers that `fill` gives a float64 or float32 tensor of that many elements.
std::vector<double> drawn(int64_t count, bool wide,
                          const std::function<void(const Tensor&)>& fill) {
  const Tensor numbers = zeros({count}, {.dtype = wide ? kFloat64 : kFloat32});
  manual_seed(kSeed);
  fill(numbers);
  std::vector<double> result;
  const Tensor doubles = to(numbers, kFloat64);
  for (int64_t i = 0; i < count; ++i) result.push_back(doubles.at<double>({i}));
  return result;
}

bool wide() { return dtype() == kFloat64 || is_integral(dtype()); }

std::vector<double> uniform_numbers(int64_t count) {
  std::vector<double> result = drawn(count, wide(), [](const Tensor& x) { uniform_(x); });
  for (double& u : result) u += wide() ? 0x1p-54 : 0x1p-25;
  return result;
}

void add(Cases& cases, const char* op, const char* name, const Shape& sizes,
         std::vector<DType> dtypes, std::function<void(const Tensor&)> fill,
         std::function<std::vector<double>(int64_t)> values) {
  cases.add({.op = op,
             .name = concat(name, " ", sizes),
             .inputs = {{sizes}},
             .run =
                 [fill](In x) {
                   Tensor result = clone(x[0]);
                   fill(result);
                   return one(result);
                 },
             .reference =
                 [values](Arrays x) {
                   Array result(x[0].sizes);
                   result.values = values(result.numel());
                   return one(result);
                 },
             .dtypes = std::move(dtypes),
             .inplace = [fill](In x) { fill(x[0]); },
             .tolerance = 8,
             .seed = kSeed});
}

void cauchy_cases(Cases& cases, const Shape& sizes) {
  add(
      cases, "cauchy_", "median 0.5 sigma 2", sizes, {kFloat32, kFloat64, kBFloat16},
      [](const Tensor& x) { cauchy_(x, 0.5, 2); },
      [](int64_t count) {
        std::vector<double> values = uniform_numbers(count);
        for (double& u : values) u = 0.5 + 2 * std::tan(std::numbers::pi * (u - 0.5));
        return values;
      });
}

void log_normal_cases(Cases& cases, const Shape& sizes) {
  add(
      cases, "log_normal_", "mean 0.5 std 0.25", sizes, floating_dtypes(),
      [](const Tensor& x) { log_normal_(x, 0.5, 0.25); },
      [](int64_t count) {
        std::vector<double> values =
            drawn(count, wide(), [](const Tensor& x) { normal_(x, 0.5, 0.25); });
        for (double& v : values) v = std::exp(v);
        return values;
      });
}

void geometric_cases(Cases& cases, const Shape& sizes) {
  add(
      cases, "geometric_", "p 0.3", sizes,
      {kFloat32, kFloat64, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8},
      [](const Tensor& x) { geometric_(x, 0.3); },
      [](int64_t count) {
        std::vector<double> values = uniform_numbers(count);
        for (double& u : values) u = std::max(1., std::ceil(std::log(u) / std::log1p(-0.3)));
        return values;
      });
}

}  // namespace

void distributions_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{}, Shape{5, 3}, Shape{0, 3}, Shape{3, 700}}) {
    cauchy_cases(cases, sizes);
    log_normal_cases(cases, sizes);
    geometric_cases(cases, sizes);
  }
  cases.error("cauchy_", "sigma 0", "sigma > 0", [] { cauchy_(zeros({2}), 0, 0); });
  cases.error("cauchy_", "integers", "floating-point",
              [] { cauchy_(zeros({2}, {.dtype = kInt64})); });
  cases.error("log_normal_", "std 0", "std > 0", [] { log_normal_(zeros({2}), 0, 0); });
  cases.error("log_normal_", "integers", "floating-point",
              [] { log_normal_(zeros({2}, {.dtype = kInt64})); });
  cases.error("geometric_", "p 0", "between 0 and 1", [] { geometric_(zeros({2}), 0); });
  cases.error("geometric_", "p 1", "between 0 and 1", [] { geometric_(zeros({2}), 1); });
  cases.error("geometric_", "bools", "tensor of numbers",
              [] { geometric_(zeros({2}, {.dtype = kBool}), 0.5); });
}

}  // namespace tensora::suite
