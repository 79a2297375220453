#include <cmath>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double clamp_of(double x, double low, double high) {
  return x != x ? x : std::min(std::max(x, low), high);
}
double elu_of(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x / alpha); }
double softplus_of(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

// Taken for every number.
const UnaryRow kNumberRows[] = {
    {"relu", relu, relu_, [](double x) { return x < 0 ? 0 : x; }},
    {"relu6", relu6, nullptr, [](double x) { return clamp_of(x, 0, 6); }, -3, 9},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x); }, [](const Tensor& x) { hardtanh_(x); },
     [](double x) { return clamp_of(x, -1, 1); }},
    {"hardtanh with bounds", [](const Tensor& x) { return hardtanh(x, -2, 1); },
     [](const Tensor& x) { hardtanh_(x, -2, 1); }, [](double x) { return clamp_of(x, -2, 1); }, -3,
     3},
    {"threshold", [](const Tensor& x) { return threshold(x, 1, 5); },
     [](const Tensor& x) { threshold_(x, 1, 5); }, [](double x) { return x <= 1 ? 5 : x; }},
};

const UnaryRow kFloatRows[] = {
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); },
     [](const Tensor& x) { leaky_relu_(x); }, [](double x) { return x > 0 ? x : 0.01 * x; }},
    {"leaky_relu of negative slope", [](const Tensor& x) { return leaky_relu(x, -0.5); },
     [](const Tensor& x) { leaky_relu_(x, -0.5); }, [](double x) { return x > 0 ? x : -0.5 * x; }},
    {"elu", [](const Tensor& x) { return elu(x); }, [](const Tensor& x) { elu_(x); },
     [](double x) { return elu_of(x, 1); }},
    {"elu with alpha", [](const Tensor& x) { return elu(x, 0.7); },
     [](const Tensor& x) { elu_(x, 0.7); },
     [](double x) { return x > 0 ? x : 0.7 * std::expm1(x); }},
    {"selu", selu, selu_,
     [](double x) {
       return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x));
     }},
    {"celu", [](const Tensor& x) { return celu(x, 1.5); }, [](const Tensor& x) { celu_(x, 1.5); },
     [](double x) { return elu_of(x, 1.5); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }, nullptr,
     [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
    {"silu", silu, silu_, [](double x) { return x * sigmoid_of(x); }},
    {"mish", mish, mish_, [](double x) { return x * std::tanh(softplus_of(x)); }},
    {"softplus", [](const Tensor& x) { return softplus(x); }, nullptr, softplus_of},
    {"softplus with beta", [](const Tensor& x) { return softplus(x, 2, 3); }, nullptr,
     [](double x) { return 2 * x > 3 ? x : std::log1p(std::exp(2 * x)) / 2; }},
    {"hardsigmoid", hardsigmoid, hardsigmoid_, [](double x) { return clamp_of(x + 3, 0, 6) / 6; },
     -5, 5},
    {"hardswish", hardswish, hardswish_, [](double x) { return x * clamp_of(x + 3, 0, 6) / 6; }, -5,
     5},
    {"logsigmoid", logsigmoid, nullptr, [](double x) { return -softplus_of(-x); }},
    {"softshrink", [](const Tensor& x) { return softshrink(x); }, nullptr,
     [](double x) { return x > 0.5    ? x - 0.5
                           : x < -0.5 ? x + 0.5
                                      : x * 0; }},
    {"hardshrink", [](const Tensor& x) { return hardshrink(x); }, nullptr,
     [](double x) { return std::abs(x) <= 0.5 ? 0 : x; }},
};

// Integers become float32.
const UnaryRow kPromotingRows[] = {
    {"softsign", softsign, nullptr, [](double x) { return x / (1 + std::abs(x)); }},
    {"tanhshrink", tanhshrink, nullptr, [](double x) { return x - std::tanh(x); }},
};

double gelu_tanh_of(double x) {
  const double z = std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(z));
}

void add_gelu_tanh(Cases& cases) {
  cases.add({.op = "gelu_tanh",
             .name = "several tiles",
             .inputs = {{{1037, 2}}},
             .run = [](In x) { return one(gelu(x[0], "tanh")); },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) { return gelu_tanh_of(*v); });
                 }});
  cases.error("gelu", "unknown approximation", "must be \"none\" or \"tanh\", got \"cubic\"",
              [] { gelu(zeros({2}), "cubic"); });
}

void add_gradients_at_kinks(Cases& cases) {
  const auto at = [](std::vector<double> values) {
    return std::vector<Input>{{.sizes = {static_cast<int64_t>(values.size())}, .values = values}};
  };
  add_gradient(cases, "relu", "gradient at 0", at({-1, 0, 2}), [](In x) { return relu(x[0]); },
               {array_of_values({0, 0, 1})});
  add_gradient(cases, "leaky_relu", "gradient at 0", at({-1, 0, 2}),
               [](In x) { return leaky_relu(x[0], 0.25); }, {array_of_values({0.25, 0.25, 1})});
  add_gradient(cases, "hardtanh", "gradient at the bounds", at({-1, 1, 0.5}),
               [](In x) { return hardtanh(x[0]); }, {array_of_values({0, 0, 1})});
  add_gradient(cases, "relu6", "gradient at the bounds", at({0, 6, 3}),
               [](In x) { return relu6(x[0]); }, {array_of_values({0, 0, 1})});
  add_gradient(cases, "threshold", "gradient at the threshold", at({1, 1.5}),
               [](In x) { return threshold(x[0], 1, 7); }, {array_of_values({0, 1})});
  add_gradient(cases, "softshrink", "gradient at lambd", at({-0.5, 0.5, 0.75}),
               [](In x) { return softshrink(x[0]); }, {array_of_values({0, 0, 1})});
  add_gradient(cases, "mish", "gradient far out", at({-90, 90}), [](In x) { return mish(x[0]); },
               {array_of_values({0, 1})});
  add_gradient(cases, "softplus", "gradient far out", at({-90, 90}),
               [](In x) { return softplus(x[0]); }, {array_of_values({0, 1})});
}

void add_mistakes(Cases& cases) {
  const TensorOptions integers{.dtype = kInt64};
  cases.error("hardtanh", "bounds",
              "hardtanh: min_val must not be greater than max_val, got 1 and -1",
              [] { hardtanh(ones({2}), 1, -1); });
  cases.error("gelu", "integers", "expected floating-point tensors, got int64",
              [integers] { gelu(zeros({2}, integers)); });
  cases.error("silu", "integers", "expected floating-point tensors, got int64",
              [integers] { silu(zeros({2}, integers)); });
  cases.error("relu", "bool", "bool tensors are not supported",
              [] { relu(zeros({2}, {.dtype = kBool})); });
  cases.error("celu", "alpha 0", "alpha must not be 0", [] { celu(zeros({2}), 0); });
  cases.error("softshrink", "negative lambd", "lambd must not be negative, got -1",
              [] { softshrink(zeros({2}), -1); });
}

void add_speed(Cases& cases) {
  struct Row {
    const char* op;
    Tensor (*run)(const Tensor&);
  };
  const Row rows[] = {{"relu", relu},
                      {"silu", silu},
                      {"mish", mish},
                      {"gelu", [](const Tensor& x) { return gelu(x); }},
                      {"gelu_tanh", [](const Tensor& x) { return gelu(x, "tanh"); }},
                      {"softplus", [](const Tensor& x) { return softplus(x); }}};
  for (const Row& row : rows)
    cases.add({.op = row.op,
               .name = "large",
               .inputs = {{{1 << 20}}},
               .run = [run = row.run](In x) { return one(run(x[0])); },
               .dtypes = {kFloat32},
               .big = true});
}

}  // namespace

void activations_cases(Cases& cases) {
  for (const UnaryRow& row : kNumberRows) add_unary(cases, row, {.whole = integer_dtypes()});
  for (const UnaryRow& row : kFloatRows) add_unary(cases, row, {});
  for (const UnaryRow& row : kPromotingRows)
    add_unary(cases, row, {.whole = integral_dtypes(), .whole_output = always_float});
  add_gelu_tanh(cases);
  add_gradients_at_kinks(cases);
  add_mistakes(cases);
  add_speed(cases);
}

}  // namespace tensora::suite
