#include "tensora/ops/matrix/feed_forward_op.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

double hidden_value(double x, std::string_view activation) {
  if (activation == "relu") return x < 0 ? 0 : x;
  if (activation == "gelu") return x * 0.5 * std::erfc(-x / std::sqrt(2.));
  if (activation == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

// x @ w^T + b of m rows.
std::vector<double> layer(const std::vector<double>& x, const Array& w, const Array* b, int64_t m) {
  const int64_t n = w.sizes[0], k = w.sizes[1];
  std::vector<double> out;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = b ? (*b)[j] : 0;
      for (int64_t l = 0; l < k; ++l) sum += x[static_cast<size_t>(i * k + l)] * w[j * k + l];
      out.push_back(sum);
    }
  return out;
}

void add(Cases& cases, std::string activation, const Shape& input, int64_t hidden, int64_t out,
         bool bias) {
  const int64_t width = input[input.size() - 1], rows = width == 0 ? 0 : input.numel() / width;
  std::vector<Input> inputs = {{input, -1, 1}, {{hidden, width}, -1, 1}, {{out, hidden}, -1, 1}};
  if (bias) {
    inputs.push_back({{hidden}, -1, 1});
    inputs.push_back({{out}, -1, 1});
  }
  cases.add(
      {.op = "feed_forward",
       .name = concat(activation, " ", input, " to ", hidden, " to ", out, bias ? "" : ", no bias"),
       .inputs = std::move(inputs),
       .run =
           [=](In x) {
             const Tensor none;
             return one(feed_forward(x[0], x[1], bias ? x[3] : none, x[2], bias ? x[4] : none,
                                     activation));
           },
       .reference =
           [=](Arrays x) {
             std::vector<double> middle = layer(x[0].values, x[1], bias ? &x[3] : nullptr, rows);
             for (double& value : middle) value = hidden_value(value, activation);
             Shape sizes = input;
             sizes[sizes.size() - 1] = out;
             Array result(sizes);
             result.values = layer(middle, x[2], bias ? &x[4] : nullptr, rows);
             return one(result);
           },
       .tolerance = 16});
}

}  // namespace

void feed_forward_cases(Cases& cases) {
  for (const std::string activation : {"none", "relu", "gelu", "gelu_tanh"}) {
    add(cases, activation, {3, 4}, 5, 2, true);
    add(cases, activation, {2, 3, 8}, 16, 8, false);
  }
  add(cases, "gelu_tanh", {40, 16}, 64, 16, true);
  add(cases, "gelu_tanh", {6}, 3, 2, true);
  add(cases, "gelu_tanh", {0, 4}, 8, 2, true);
  cases.error("feed_forward", "name", "unknown activation 'swish'", [] {
    feed_forward(rand({2, 3}), rand({4, 3}), {}, rand({3, 4}), {}, "swish");
  });
  cases.error("feed_forward", "widths", "does not fit weights of shapes [4, 3] and [3, 5]", [] {
    feed_forward(rand({2, 3}), rand({4, 3}), {}, rand({3, 5}), {}, "relu");
  });
  cases.error("feed_forward", "bias", "bias1 must have shape [4]", [] {
    feed_forward(rand({2, 3}), rand({4, 3}), rand({3}), rand({3, 4}), {}, "relu");
  });
}

}  // namespace tensora::suite
