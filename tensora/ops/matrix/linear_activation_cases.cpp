#include <cmath>

#include "tensora/ops/matrix/linear_activation.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

double activated(double x, std::string_view activation) {
  if (activation == "relu") return x < 0 ? 0 : x;
  if (activation == "gelu") return x * 0.5 * std::erfc(-x / std::sqrt(2.));
  if (activation == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (activation == "silu") return x / (1 + std::exp(-x));
  if (activation == "sigmoid") return 1 / (1 + std::exp(-x));
  if (activation == "tanh") return std::tanh(x);
  return x;
}

void add(Cases& cases, std::string activation, const Shape& input, int64_t out, bool bias) {
  const int64_t width = input[input.size() - 1];
  std::vector<Input> inputs = {{input, -1, 1}, {{out, width}, -1, 1}};
  if (bias) inputs.push_back({{out}, -1, 1});
  cases.add({.op = "linear_activation",
             .name = concat(activation, " ", input, " to ", out, bias ? "" : ", no bias"),
             .inputs = std::move(inputs),
             .run =
                 [=](In x) {
                   return one(linear_activation(x[0], x[1], bias ? x[2] : Tensor(), activation));
                 },
             .reference =
                 [=](Arrays x) {
                   Shape sizes = input;
                   sizes[sizes.size() - 1] = out;
                   Array result(sizes);
                   for (int64_t i = 0; i < result.numel(); ++i) {
                     double sum = bias ? x[2][i % out] : 0;
                     for (int64_t k = 0; k < width; ++k)
                       sum += x[0][i / out * width + k] * x[1][i % out * width + k];
                     result[i] = activated(sum, activation);
                   }
                   return one(result);
                 },
             .tolerance = 4});
}

}  // namespace

void linear_activation_cases(Cases& cases) {
  for (const std::string activation :
       {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}) {
    add(cases, activation, {3, 4}, 5, true);
    add(cases, activation, {2, 3, 8}, 16, false);
  }
  add(cases, "gelu_tanh", {40, 16}, 64, true);
  add(cases, "relu", {0, 4}, 5, true);
  add(cases, "silu", {3, 0}, 5, true);
  add(cases, "gelu", {6}, 3, true);
  add(cases, "gelu", {20, 8}, 1200, true);
  cases.error("linear_activation", "name", "unknown activation 'swish'", [] {
    linear_activation(rand({2, 3}), rand({4, 3}), {}, "swish");
  });
  cases.error("linear_activation", "width", "does not fit weight", [] {
    linear_activation(rand({2, 3}), rand({4, 5}), {}, "relu");
  });
  cases.error("linear_activation", "bias", "bias must have shape [4]", [] {
    linear_activation(rand({2, 3}), rand({4, 3}), rand({3}), "relu");
  });
}

}  // namespace tensora::suite
